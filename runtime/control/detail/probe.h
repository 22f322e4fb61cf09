#pragma once
// Is the process behind a broken connection still there?

#include <string>

#include "runtime/control/detail/session.h"
#include "runtime/fd.h"

namespace troupe::control {

/// Tries whether a port that a process listened on still takes connections, a few times within a
/// second: its descriptors close one after the other. Never waits. Of one thread.
///
/// A port that refuses belongs to a process that ended; silence says nothing (a host that is down,
/// a network that is cut), a connection little (a stopped process has one too).
class Probe {
 public:
  Probe(std::string address, int port);

  enum class Finding { pending, ended, unclear };
  Finding look(Clock::time_point now);

  int fd() const { return socket_.get(); }  ///< -1 between two attempts
  Clock::time_point next_look() const { return next_; }

 private:
  std::string address_;
  int port_;
  Fd socket_;
  int attempts_ = 0;
  Clock::time_point next_ = Clock::now();
};

}  // namespace troupe::control
