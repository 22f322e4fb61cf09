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
  int code = 0;    ///< its exit code; 0 if a signal ended it
  int signal = 0;  ///< the signal that ended it; 0 if none
  /// As a shell reports it: 128 + n for signal n.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
};

/// A process in its own session, so that a signal also reaches its children. It ends when the
/// thread that started it ends.
class Child {
 public:
  /// Throws Error (io) if the program cannot be started.
  static Child start(const ChildOptions& options);

  pid_t pid() const { return pid_; }
  int descriptor() const { return pidfd_.get(); }  ///< readable once it has ended

  /// Sends a signal to the process alone, if it has not ended.
  void signal(int number) const;
  /// Sends a signal to the process group of its session.
  void signal_group(int number) const;

  /// How it ended. Call it once, when the descriptor is readable.
  Ending reap();

 private:
  pid_t pid_ = 0;
  Fd pidfd_;
};

}  // namespace troupe
