#pragma once
#include <atomic>

namespace troupe::flow {

/// Marks an actor thread as at work while it exists. When all threads of the process are at work,
/// `Incoming` (a Bridge, a Communicator) may defer deliveries, and delivers what is pending when
/// the first of them is free again. The threads share one counter, so either the last thread to
/// begin or the first to end sees the other.
template <class Incoming>
class AtWork {
 public:
  /// Does nothing if `incoming` is null.
  AtWork(std::atomic<int>& at_work, int threads, Incoming* incoming)
      : at_work_(at_work), incoming_(incoming) {
    if (!incoming_) return;
    if (++at_work_ < threads) return;
    incoming_->defer_delivery();
    if (at_work_ < threads) incoming_->deliver_pending();
  }
  ~AtWork() {
    if (!incoming_) return;
    --at_work_;
    incoming_->deliver_pending();
  }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  std::atomic<int>& at_work_;
  Incoming* incoming_;
};

}  // namespace troupe::flow
