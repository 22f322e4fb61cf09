#pragma once
#include <map>
#include <string>
#include <vector>

#include "runtime/control/member.h"
#include "runtime/remote/transport_options.h"

namespace troupe {

/// Which transport carries tensors between two processes of a world. The one place that decides it:
/// the bulk plane connects by it, and plans are compared by it.
class Ways {
 public:
  Ways(const Member& member, TransportKind transport);

  /// Ranks of the processes that share memory with `rank`, itself among them, in order.
  std::vector<int> sharing_memory_with(int rank) const;
  /// Whether these two, which may be one, share memory; else it is Gloo.
  bool share_memory(int one, int other) const;
  /// Whether all processes share memory with each other.
  bool need_no_network() const;

 private:
  const std::string& host_of(int rank) const;

  const Member& member_;
  const TransportKind transport_;
  std::map<std::string, std::vector<int>> hosts_;  ///< ranks by identity
};

}  // namespace troupe
