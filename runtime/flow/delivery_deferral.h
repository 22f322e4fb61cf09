#pragma once
#include <atomic>
#include <functional>
#include <utility>

namespace troupe::flow {

/// Defers deliveries from other processes while all actor threads of this process are at work: no
/// thread could use them, and the threads of the transports leave the processor to the actors. The
/// first actor thread that is free again delivers what is pending. Thread-safe.
class DeliveryDeferral {
 public:
  /// Calls `defer` when the last of `threads` begins an action and `deliver_pending` after each
  /// action. Without functions it does nothing: a run of one process.
  DeliveryDeferral(int threads, std::function<void()> defer, std::function<void()> deliver_pending)
      : threads_(threads), defer_(std::move(defer)), deliver_pending_(std::move(deliver_pending)) {}

  /// An actor thread performs an action while this exists.
  class Action {
   public:
    explicit Action(DeliveryDeferral& deferral) : deferral_(deferral) {
      if (deferral_.defer_) deferral_.begin();
    }
    ~Action() {
      if (deferral_.defer_) deferral_.end();
    }
    Action(const Action&) = delete;
    Action& operator=(const Action&) = delete;

   private:
    DeliveryDeferral& deferral_;
  };

 private:
  /// Another thread may end its action before `defer_` has returned. Then its deliver_pending_ came
  /// too early, but the counter shows it here.
  void begin() {
    if (++at_work_ < threads_) return;
    defer_();
    if (at_work_ < threads_) deliver_pending_();
  }
  void end() {
    --at_work_;
    deliver_pending_();
  }

  const int threads_;
  const std::function<void()> defer_, deliver_pending_;
  std::atomic<int> at_work_ = 0;  ///< threads that perform an action
};

}  // namespace troupe::flow
