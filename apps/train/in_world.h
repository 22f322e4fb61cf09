#pragma once
#include "apps/train/lead_run.h"
#include "runtime/world/environment.h"
#include "runtime/world/world.h"

namespace troupe {

/// This process's part of a training run in a world that a launcher has started: rank 0 decides,
/// the others follow. Loads the options. Returns the exit code. Once the processes are connected,
/// one of them prints an error; before that, this throws it.
int train_in_world(TrainCommand command, const World& world, const Environment& environment);

}  // namespace troupe
