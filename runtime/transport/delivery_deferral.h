#pragma once
#include <atomic>
#include <vector>

namespace troupe {

/// Defers arrivals from other processes while all actor threads of this process are at work: no
/// thread could use them, and the threads of the transports leave the processor to the actors. The
/// first actor thread that is free again delivers what is pending.
class DeliveryDeferral {
 public:
  /// The arrivals of a transport, which can wait. Any thread may call both functions, also at the
  /// same time.
  class Arrivals {
   public:
    virtual ~Arrivals() = default;
    /// Arrivals may wait until deliver_pending(), and the transport's own threads may sleep. It
    /// still notices at once that a peer has ended.
    virtual void defer_delivery() = 0;
    /// Handles the arrivals that were left, on the calling thread. When it returns, receives whose
    /// tensors were sent before are done, unless another thread delivers at that moment. Later
    /// arrivals are handled at once again. Callbacks of works must not call it.
    virtual void deliver_pending() = 0;
  };

  /// While no action is performed.
  void attach(Arrivals& arrivals) { all_.push_back(&arrivals); }
  void detach(Arrivals& arrivals) { std::erase(all_, &arrivals); }

  /// One of `threads` actor threads performs an action while this exists. Without a deferral, as in
  /// a run of one process, it does nothing. Thread-safe.
  class Action {
   public:
    Action(DeliveryDeferral* deferral, int threads) : deferral_(deferral) {
      if (deferral_) deferral_->begin(threads);
    }
    ~Action() {
      if (deferral_) deferral_->end();
    }
    Action(const Action&) = delete;
    Action& operator=(const Action&) = delete;

   private:
    DeliveryDeferral* const deferral_;
  };

 private:
  /// Another thread may end its action before all transports defer. Then its deliver_pending() came
  /// too early, but the counter shows it here.
  void begin(int threads) {
    if (++at_work_ < threads) return;
    for (Arrivals* arrivals : all_) arrivals->defer_delivery();
    if (at_work_ < threads) deliver_pending();
  }
  void end() {
    --at_work_;
    deliver_pending();
  }
  void deliver_pending() {
    for (Arrivals* arrivals : all_) arrivals->deliver_pending();
  }

  std::atomic<int> at_work_ = 0;  ///< threads that perform an action
  std::vector<Arrivals*> all_;
};

}  // namespace troupe
