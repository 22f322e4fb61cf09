#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace troupe::remote {

/// Admits calls until it is closed; close() waits for the calls inside. A call may enter again from
/// inside. Thread-safe. An owner passes its callbacks to other threads through a gate and closes
/// the gate before it is destroyed. Later calls then have no effect.
class CallGate : public std::enable_shared_from_this<CallGate> {
 public:
  /// A call inside the gate; false if the gate was closed before.
  class Call {
   public:
    explicit Call(CallGate& gate)
        : gate_(gate), admitted_((gate.state_.fetch_add(1) & closed) == 0) {
      if (!admitted_) leave();
    }
    ~Call() {
      if (admitted_) leave();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    explicit operator bool() const { return admitted_; }

   private:
    void leave() {
      if (gate_.state_.fetch_sub(1) == (closed | 1)) gate_.state_.notify_all();
    }
    CallGate& gate_;
    const bool admitted_;
  };

  /// A function that calls `inside` while the gate is open and does nothing afterwards.
  template <class F>
  auto guard(F inside) {
    return [gate = shared_from_this(), inside = std::move(inside)](auto&&... arguments) {
      if (const Call call(*gate); call) inside(std::forward<decltype(arguments)>(arguments)...);
    };
  }

  void close() {
    for (std::uint32_t state = state_.fetch_or(closed) | closed; state != closed;
         state = state_.load())
      state_.wait(state);
  }

 private:
  static constexpr std::uint32_t closed = std::uint32_t{1} << 31;
  std::atomic<std::uint32_t> state_{0};  ///< calls inside, and the bit `closed`
};

}  // namespace troupe::remote
