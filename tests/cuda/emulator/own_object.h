#pragma once
#include <cstddef>

#include "memory.h"

namespace cuda_on_cpu {

/// The program or library that the emulator and the kernels are in.
struct OwnObject {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;  ///< of its code and constants
  std::size_t thread_local_bytes = 0;
};
const OwnObject& own_object();

/// The shared memory of the blocks that the calling thread runs: __shared__ is thread_local, so it
/// is the object's thread-local memory.
Region& shared_memory();

}  // namespace cuda_on_cpu
