#pragma once
#include "ops/cpu/reorder.h"
#include "ops/cpu/scratch.h"

namespace troupe::cpu {

/// Working memory and compiled reorders that the kernels of the CPU keep between calls; all streams
/// share them. They change the time of a call, never its result.
struct KernelCaches {
  ScratchPool scratch;
  ReorderPool reorders;
};

/// The only instance of the process. Thread-safe. Never destroyed, because kernels may run during
/// static destruction.
KernelCaches& kernel_caches();

}  // namespace troupe::cpu
