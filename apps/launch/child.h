#pragma once
#include <sys/types.h>

#include <string>
#include <vector>

#include "apps/launch/launch_options.h"
#include "runtime/fd.h"
#include "runtime/world/environment.h"

namespace troupe {

struct ChildOptions {
  Program program;
  Environment::Variables environment;  ///< all of it
  std::vector<int> cpus;               ///< to bind to; empty: as its parent
  int output = 1;                      ///< becomes its standard output
  int error = 2;                       ///< becomes its standard error
  int announce = -1;  ///< where it writes its pid_t before the program begins; -1 for nowhere
};

/// How a process ended.
struct Ending {
  int code = 0;    ///< what it returned; 0 if a signal ended it
  int signal = 0;  ///< that ended it; 0 if none
  /// As a shell counts: 128 + the signal.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
};

/// A process in a session of its own, so that a signal reaches what it started as well. When the
/// thread that started it ends, so does it.
class Child {
 public:
  /// Throws Error (io) if the program cannot be started.
  static Child start(const ChildOptions& options);

  pid_t pid() const { return pid_; }
  int descriptor() const { return pidfd_.get(); }  ///< readable once it has ended

  /// To the process alone; nothing if it has ended.
  void signal(int number) const;
  /// To it and all that live in its session's first process group.
  void signal_group(int number) const;

  /// How it ended; only once, when the descriptor is readable.
  Ending reap();

 private:
  pid_t pid_ = 0;
  Fd pidfd_;
};

}  // namespace troupe
