#pragma once
#include <sys/types.h>

#include "apps/launch/child.h"

namespace troupe {

/// A small process that outlives the launcher by a moment: when the launcher dies without a word,
/// as by SIGKILL, it kills the process groups that the launcher had started. The kernel ends the
/// launcher's children by itself (PR_SET_PDEATHSIG), but not what those have started.
class Guard {
 public:
  /// Starts it. Call before any thread is started. Throws Error (io).
  Guard();
  /// Dismisses it: there is nothing left to guard.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// Where each process group announces itself (ChildOptions::announce) before its program begins,
  /// so that there is no moment in which it runs unguarded.
  int line() const { return line_.get(); }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  Fd line_;
};

}  // namespace troupe
