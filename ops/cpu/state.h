#pragma once
#include "ops/cpu/reorder.h"
#include "ops/cpu/scratch.h"

namespace troupe::cpu {

/// What the kernels of the CPU keep between calls, for all streams of the process. It changes the
/// time of a call, never its result.
struct State {
  ScratchPool scratch;
  ReorderPool reorders;
};

/// The one of this process. Thread-safe, and never destroyed: kernels may run while statics go.
State& state();

}  // namespace troupe::cpu
