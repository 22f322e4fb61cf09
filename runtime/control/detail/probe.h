#pragma once
// Finds out whether the process behind a broken connection has ended.

#include <string>

#include "runtime/control/detail/session.h"
#include "runtime/fd.h"

namespace troupe::control {

/// Tries to connect to the port of a process, several times within a second, since the descriptors
/// of an ending process close one after the other. Never blocks. Of one thread.
///
/// A refused connection shows that the process has ended. No answer shows nothing: the host or the
/// network may be down. An accepted connection proves little, because a stopped process also
/// accepts connections.
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
