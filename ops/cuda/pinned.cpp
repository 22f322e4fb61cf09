#include "ops/cuda/pinned.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <vector>

#include "ops/cuda/error.h"

namespace troupe::cuda {
namespace {

/// Of one size.
struct Blocks {
  std::vector<void*> free;
  std::size_t total = 0;  ///< also of those in use
};

struct Pool {
  std::mutex mutex;
  std::map<std::size_t, Blocks> by_size;
};

// Never destroyed: a host function may come after any static's end.
Pool& pool() {
  static auto* pool = new Pool;
  return *pool;
}

/// Null if there is none: then the caller gets one from CUDA.
void* take_free(std::size_t bytes) {
  const std::lock_guard lock(pool().mutex);
  Blocks& blocks = pool().by_size[bytes];
  if (blocks.free.empty()) {
    blocks.free.reserve(++blocks.total);  // so that the destructor needs no memory
    return nullptr;
  }
  void* block = blocks.free.back();
  blocks.free.pop_back();
  return block;
}

// Blocks of other sizes may make room. cudaFreeHost waits for the device, and so for host functions
// that give blocks back: not under the lock.
void release_free() {
  std::vector<void*> unused;
  {
    const std::lock_guard lock(pool().mutex);
    for (auto& [bytes, blocks] : pool().by_size) {
      unused.insert(unused.end(), blocks.free.begin(), blocks.free.end());
      blocks.total -= blocks.free.size();
      blocks.free.clear();
    }
  }
  for (void* block : unused) cudaFreeHost(block);
}

}  // namespace

Pinned::Pinned(std::size_t bytes)
    : data_(take_free(std::bit_ceil(std::max<std::size_t>(bytes, 4096)))),
      bytes_(std::bit_ceil(std::max<std::size_t>(bytes, 4096))) {
  if (data_) return;
  cudaError_t status = cudaMallocHost(&data_, bytes_);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // which would be the next launch's
    release_free();
    status = cudaMallocHost(&data_, bytes_);
  }
  check(status, "pin memory of the CPU");
}

Pinned::~Pinned() {
  if (!data_) return;
  const std::lock_guard lock(pool().mutex);
  pool().by_size[bytes_].free.push_back(data_);
}

}  // namespace troupe::cuda
