#pragma once
#include <csignal>

#include "runtime/fd.h"

namespace troupe {

/// The signals that a launcher handles: the signals that it forwards to its processes, and SIGCHLD.
/// The launcher blocks them in each thread that starts later, and reads them from a descriptor.
class Signals {
 public:
  Signals();
  int descriptor() const { return descriptor_.get(); }
  /// The next pending signal; 0 if there is none.
  int next() const;

 private:
  sigset_t set_{};
  Fd descriptor_;
};

}  // namespace troupe
