#include "ops/cuda/with_memory.h"

#include "ops/cuda/stream.h"
#include "runtime/tensor/allocator.h"

namespace troupe::cuda {

void give_back_free_blocks(const Stream& stream) {
  if (captures_here()) throw;
  const LastingScope of_the_device;
  CachingAllocator::of(stream.device).trim();
}

}  // namespace troupe::cuda
