#pragma once
#include "runtime/tensor/device.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe::cuda {

/// Gives the allocator's free blocks back to CUDA. This waits for captures to end: while this
/// thread captures a graph, it rethrows the exception that is being handled instead.
void give_back_free_blocks(const Stream& stream);

/// Calls `f`; if it throws OutOfMemory, once more after the allocator's free blocks have been given
/// back. Not only the allocator takes memory: so do libraries, and CUDA for the code of a kernel
/// that is launched for the first time.
template <class F>
decltype(auto) with_memory(const Stream& stream, F&& f) {
  try {
    return f();
  } catch (const OutOfMemory&) {
    give_back_free_blocks(stream);
  }
  return f();
}

}  // namespace troupe::cuda
