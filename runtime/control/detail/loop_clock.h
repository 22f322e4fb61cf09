#pragma once
// When a loop of the control plane serves its sessions.

#include <chrono>

#include "runtime/control/detail/session.h"

namespace troupe::control {

/// The times of a coordinator's or member's loop, all derived from the timeout. The caller passes
/// the time and provides the lock.
class LoopClock {
 public:
  explicit LoopClock(std::chrono::milliseconds timeout) { set_timeout(timeout); }

  void set_timeout(std::chrono::milliseconds timeout);
  /// The interval of heartbeats, short enough that a member is not declared lost if a few of them
  /// are lost.
  Clock::duration heartbeat() const { return heartbeat_; }

  /// Call it once a round of the loop. If a round took very long, this process was suspended and
  /// did not listen. For one timeout it then does not treat the silence of others as a loss.
  void begin_round(Clock::time_point now);
  bool takes_silence_for_loss(Clock::time_point now) const { return now > lenient_until_; }

  /// Sessions are maintained each tick while they are busy, else each heartbeat.
  Clock::duration interval() const;
  Clock::time_point next_maintenance() const { return last_maintenance_ + interval(); }
  bool is_maintenance_due(Clock::time_point now) const { return now >= next_maintenance(); }
  void begin_maintenance(Clock::time_point now) { last_maintenance_ = now; }
  bool is_busy() const { return busy_; }
  void set_busy(bool busy) { busy_ = busy; }

  /// Whether a heartbeat is due; if so, the next one is due an interval later.
  bool take_heartbeat(Clock::time_point now);

 private:
  std::chrono::milliseconds timeout_{};
  Clock::duration heartbeat_{};
  Clock::time_point last_round_ = Clock::now();
  Clock::time_point last_heartbeat_ = Clock::now();
  Clock::time_point last_maintenance_{};
  Clock::time_point lenient_until_{};
  bool busy_ = true;
};

}  // namespace troupe::control
