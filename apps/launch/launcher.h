#pragma once
#include "apps/launch/launch_options.h"

namespace troupe {

/// Starts the processes of this host, supervises them until all have ended, and returns what the
/// command exits with: the first failure's exit code, 128 + a signal, 75 if all were stopped with a
/// checkpoint, 0. Call it on the process's main thread, before other threads are started; it takes
/// over the signals of the process, and its orphans.
///
/// Throws Error if the processes cannot be started at all; none is left then.
int launch(const LaunchOptions& options);

}  // namespace troupe
