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

struct Pool {
  std::mutex mutex;
  std::map<std::size_t, std::vector<void*>> free;  ///< by size
};

// Never destroyed: a host function may come after any static's end.
Pool& pool() {
  static auto* pool = new Pool;
  return *pool;
}

}  // namespace

Pinned::Pinned(std::size_t bytes) : bytes_(std::bit_ceil(std::max<std::size_t>(bytes, 4096))) {
  {
    const std::lock_guard lock(pool().mutex);
    std::vector<void*>& blocks = pool().free[bytes_];
    blocks.reserve(blocks.size() + 1);  // so that the destructor needs no memory
    if (!blocks.empty()) {
      data_ = blocks.back();
      blocks.pop_back();
      return;
    }
  }
  check(cudaMallocHost(&data_, bytes_), "pin memory of the CPU");
}

Pinned::~Pinned() {
  if (!data_) return;
  const std::lock_guard lock(pool().mutex);
  pool().free[bytes_].push_back(data_);
}

}  // namespace troupe::cuda
