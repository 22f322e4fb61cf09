#pragma once
#include <csignal>

#include "runtime/fd.h"

namespace troupe {

/// The signals that a launcher handles: those that it passes on to its processes, and SIGCHLD.
/// They are blocked in each thread that starts later, and read from a descriptor.
class Signals {
 public:
  Signals();
  int descriptor() const { return descriptor_.get(); }
  /// The next one that has come; 0 if none.
  int next() const;

 private:
  sigset_t set_{};
  Fd descriptor_;
};

}  // namespace troupe
