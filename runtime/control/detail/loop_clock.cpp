#include "runtime/control/detail/loop_clock.h"

#include <algorithm>

namespace troupe::control {

void LoopClock::set_timeout(std::chrono::milliseconds timeout) {
  using std::chrono::milliseconds;
  timeout_ = timeout;
  heartbeat_ = std::clamp(timeout / 10, milliseconds(10), milliseconds(1000));
}

void LoopClock::begin_round(Clock::time_point now) {
  const auto longest_round = std::max<Clock::duration>(timeout_ / 4, 4 * Session::tick);
  if (now - last_round_ > longest_round) lenient_until_ = now + timeout_;
  last_round_ = now;
}

Clock::duration LoopClock::interval() const {
  return busy_ ? std::min<Clock::duration>(Session::tick, heartbeat_) : heartbeat_;
}

bool LoopClock::take_heartbeat(Clock::time_point now) {
  if (now - last_heartbeat_ < heartbeat_) return false;
  last_heartbeat_ = now;
  return true;
}

}  // namespace troupe::control
