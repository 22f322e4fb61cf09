#pragma once
// Inside the Gloo transport: connections, and how they are cut.

#include <gloo/rendezvous/context.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "runtime/transport/communicator.h"
#include "runtime/transport/fd.h"

namespace troupe::transport {

/// A Gloo context whose ranks are all connected, and duplicates of its sockets: shutdown(2) on
/// those is what ends a blocked operation at once, which Gloo itself has no call for.
class Mesh {
 public:
  /// Returns when all are connected; throws Error{timed_out} or Error{io}.
  Mesh(Store& store, int rank, int size, const GlooOptions& options);
  ~Mesh();  ///< cuts

  /// Fails every operation, here and at the peers; any thread, again and again.
  void cut();
  /// Wait for an operation of a buffer, for as long as it takes; throw once it has failed or the
  /// connections are cut.
  void await_receive(gloo::transport::UnboundBuffer& buffer);
  void await_send(gloo::transport::UnboundBuffer& buffer);
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer(void* data, std::size_t bytes) const {
    return context_->createUnboundBuffer(data, bytes);
  }
  /// What only ranks of this group know: the first words between two of them.
  const std::string& token() const { return token_; }

 private:
  class Waiting;

  std::string token_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::vector<Fd> sockets_;
  std::mutex mutex_;
  bool cut_ = false;
  std::multiset<gloo::transport::UnboundBuffer*> waiting_;
};

}  // namespace troupe::transport
