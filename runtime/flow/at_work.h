#pragma once
#include <atomic>

namespace troupe::flow {

/// While one of a process's actor threads is at work. Where none is left to take what other
/// processes send, `Incoming` (a Bridge, a Communicator) is told to let it wait, and afterwards to
/// catch up. The last thread to begin and the first to end meet in the counter, which all of them
/// share: one of the two sees the other.
template <class Incoming>
class AtWork {
 public:
  /// Nothing is told where `incoming` is null.
  AtWork(std::atomic<int>& at_work, int threads, Incoming* incoming)
      : at_work_(at_work), incoming_(incoming) {
    if (!incoming_) return;
    if (++at_work_ < threads) return;
    incoming_->let_wait();
    if (at_work_ < threads) incoming_->catch_up();
  }
  ~AtWork() {
    if (!incoming_) return;
    --at_work_;
    incoming_->catch_up();
  }
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  std::atomic<int>& at_work_;
  Incoming* incoming_;
};

}  // namespace troupe::flow
