#pragma once
#include <cstdint>
#include <future>
#include <string>
#include <unordered_map>
#include <utility>

#include "runtime/error.h"

namespace troupe::control {

/// The requests of this process that the coordinator has not answered. The caller provides the
/// lock.
class OpenRequests {
 public:
  using Answer = Result<std::string>;

  std::pair<std::uint64_t, std::future<Answer>> add();
  /// Does nothing if the request was answered or forgotten before.
  void answer(std::uint64_t id, Answer answer);
  bool forget(std::uint64_t id) { return open_.erase(id) != 0; }
  void fail_all(const Error& error);

 private:
  std::uint64_t last_id_ = 0;
  std::unordered_map<std::uint64_t, std::promise<Answer>> open_;
};

}  // namespace troupe::control
