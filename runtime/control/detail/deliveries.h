#pragma once
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "runtime/control/member.h"

namespace troupe::control {

/// The messages and losses that a member passes to its callbacks, in order. They wait until there
/// are callbacks. The caller holds the lock.
class Deliveries {
 public:
  /// Sets the callbacks, from the next deliver() on.
  void open(Member::OnMessage on_message, Member::OnLost on_lost);
  void add(int from, std::string body) { waiting_.emplace_back(std::pair(from, std::move(body))); }
  void add(PeerLost lost) { waiting_.emplace_back(std::move(lost)); }
  void drop_messages();  ///< keeps the losses

  /// Whether deliver() has something to do.
  bool pending() const { return opened_ || (callbacks_ && !waiting_.empty()); }
  /// Calls back, on the member's thread and without the lock: callbacks may send. What a callback
  /// throws passes through; then the lock is not held.
  void deliver(std::unique_lock<std::mutex>& lock);

 private:
  struct Callbacks {
    Member::OnMessage on_message;
    Member::OnLost on_lost;
  };
  std::optional<Callbacks> opened_;  ///< by open(); the member's thread may run the last ones
  std::optional<Callbacks> callbacks_;
  std::deque<std::variant<std::pair<int, std::string>, PeerLost>> waiting_;
};

}  // namespace troupe::control
