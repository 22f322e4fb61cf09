#pragma once
#include "apps/train/lead_run.h"
#include "runtime/world/environment.h"
#include "runtime/world/world.h"

namespace troupe {

/// A process's part of a training run in the world that a launcher has started: rank 0 leads, the
/// others do as it has decided. Loads the options. Returns the exit code; what goes wrong once the
/// processes have met is told by one of them, what keeps them from meeting is thrown.
int train_in_world(TrainCommand command, const World& world, const Environment& environment);

}  // namespace troupe
