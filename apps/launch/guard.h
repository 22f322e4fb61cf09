#pragma once
#include <sys/types.h>

#include "apps/launch/child.h"

namespace troupe {

/// A small process that survives the launcher: when the launcher is killed (SIGKILL), it kills the
/// process groups that the launcher has started. The kernel ends the
/// launcher's children by itself (PR_SET_PDEATHSIG), but not their children.
class Guard {
 public:
  /// Starts it. Call before any thread is started. Throws Error (io).
  Guard();
  /// Ends it without killing anything.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// The descriptor where each process group registers (ChildOptions::announce) before its program
  /// begins, so that it is never unguarded.
  int line() const { return line_.get(); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  Fd line_;
};

}  // namespace troupe
