#pragma once
// Internal to the runtime.

#include <deque>
#include <utility>

#include "runtime/device/device_stream.h"
#include "runtime/flow/actor.h"
#include "runtime/flow/report.h"

namespace troupe::flow {

/// Splits the wall time of an actor. While its device may be computing, a wait of the actor is
/// open: what the device computed in it is known later, and counts as computing.
class TimeAccount {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit TimeAccount(TimePoint start = {}) : since_(start) {}

  /// All time before `now` is then accounted for.
  void compute_until(TimePoint now) { split_.compute += now - std::exchange(since_, now); }
  void wait_until(TimePoint now, Waiting why);
  /// The same and settle(): no device worked for the actor. Actors without one wait so, with each
  /// message.
  void wait_idle_until(TimePoint now, Waiting why) {
    if (!open_.empty()) settle();
    count(now - std::exchange(since_, now), why);
  }
  /// The device computed in a span that begins after the ends of those before, and ended before
  /// the newest `now`.
  void add(const DeviceSpan& span);
  /// No span begins before the newest `now` any more.
  void settle();
  /// Without open waits.
  const TimeSplit& split() const { return split_; }

 private:
  struct Wait {
    TimePoint begin, end;
    Waiting why;
  };
  void count(std::chrono::nanoseconds time, Waiting why) {
    switch (why) {
      case Waiting::input:
        split_.no_input += time;
        break;
      case Waiting::credit:
        split_.no_credit += time;
        break;
      case Waiting::other:
        split_.other += time;
        break;
    }
  }

  TimePoint since_;
  std::deque<Wait> open_;  ///< oldest first
  TimeSplit split_;
};

}  // namespace troupe::flow
