#pragma once
#include "runtime/world/environment.h"

namespace troupe {

/// GPUs of this node that the queue (Slurm, PBS, LSF) gave to the job; 0 if none or unknown.
int allocated_gpus(const Environment::Variables& environment);

}  // namespace troupe
