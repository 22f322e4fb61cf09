#pragma once
// What a process that joins knows of its coordinator. No sockets.

#include <chrono>
#include <optional>
#include <string>

#include "runtime/control/detail/session.h"
#include "runtime/error.h"

namespace troupe::control {

/// Decides when a process gives up joining, and with which error. The caller passes the time and
/// provides the lock.
class JoinAttempt {
 public:
  explicit JoinAttempt(std::chrono::milliseconds timeout, Clock::time_point start = Clock::now())
      : timeout_(timeout), started_(start) {}

  // What happened to the connection to the coordinator.
  void handshake_succeeded();
  void handshake_failed();
  void disconnected(Clock::time_point now);
  /// The coordinator has answered for the first time, or again.
  void heard(Clock::time_point now);
  /// The place of the coordinator has changed.
  void redirected() { failed_handshakes_ = 0; }

  /// Whether the handshake of the current connection has succeeded.
  bool is_connected() const { return connected_; }
  /// The coordinator has refused the key: the handshake of a coordinator that restarts may fail
  /// too, but not several times in a row.
  bool has_wrong_key() const { return failed_handshakes_ >= 3; }
  /// Whether to look again for the place of the coordinator; if so, the next time is later.
  bool take_search(Clock::time_point now);
  /// When it gives up.
  Clock::time_point end() const;
  /// The error when it is over: it names how far the connection came. `process` and `endpoint` are
  /// for the message.
  Error timed_out(Clock::time_point now, const std::string& run, const std::string& endpoint,
                  const std::string& process) const;

 private:
  std::chrono::milliseconds timeout_;
  Clock::time_point started_;
  Clock::time_point last_search_{};
  std::optional<Clock::time_point> first_heard_;
  std::optional<Clock::time_point> broken_;  ///< when the last connection broke
  bool connected_ = false;
  int failed_handshakes_ = 0;  ///< in a row
};

}  // namespace troupe::control
