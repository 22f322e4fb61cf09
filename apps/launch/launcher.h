#pragma once
#include "apps/launch/launch_options.h"

namespace troupe {

/// Starts the processes of this host, supervises them until all have ended, and returns the exit
/// code of the command: that of the first failure, 128 + a signal, 75 if all stopped with a
/// checkpoint, or 0. Call it on the main thread before other threads start: it handles the signals
/// and the orphans of the process.
///
/// Throws Error if a process cannot be started, after ending the others.
int launch(const LaunchOptions& options);

}  // namespace troupe
