#pragma once
#include "memory.h"

namespace cuda_on_cpu {

/// The shared memory of the blocks that the calling thread runs: __shared__ is thread_local, so it
/// is the program's thread-local memory.
Region& shared_memory();

}  // namespace cuda_on_cpu
