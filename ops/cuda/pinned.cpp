#include "ops/cuda/pinned.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <vector>

#include "ops/cuda/error.h"
#include "ops/cuda/event.h"
#include "ops/cuda/stream.h"
#include "ops/gpu_sizes.h"
#include "runtime/bytes_text.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe::cuda {
namespace {

/// In use until the device has come to the event, or has failed.
struct Owed {
  void* block;
  Event event;
};

/// Of one size.
struct Blocks {
  std::vector<void*> free;
  std::vector<Owed> owed;  ///< oldest first
  std::size_t total = 0;   ///< also of those in use
};

struct Pool {
  std::mutex mutex;
  std::map<std::size_t, Blocks> by_size;
};

// Never destroyed: tensors and threads may outlive any order of destruction.
Pool& pool() {
  static auto* pool = new Pool;
  return *pool;
}

// Waits for the device, which no stream may capture meanwhile.
void unpin(void* block) {
  const NoCapture lock;
  cudaFreeHost(block);
}

/// Null if there is none: then the caller gets one from CUDA.
void* take_free(std::size_t bytes) {
  const std::lock_guard lock(pool().mutex);
  Blocks& blocks = pool().by_size[bytes];
  if (!blocks.free.empty()) {
    void* block = blocks.free.back();
    blocks.free.pop_back();
    return block;
  }
  const auto found = std::ranges::find_if(
      blocks.owed, [](const Owed& one) { return one.event.query() != cudaErrorNotReady; });
  if (found != blocks.owed.end()) {
    void* block = found->block;
    blocks.owed.erase(found);
    return block;
  }
  blocks.free.reserve(++blocks.total);  // so that the destructor needs no memory
  return nullptr;
}

// Blocks of other sizes may make room. Not under the lock, which the thread of host steps needs.
void release_unused() {
  std::vector<void*> unused;
  std::vector<Owed> owed;
  {
    const std::lock_guard lock(pool().mutex);
    for (auto& [bytes, blocks] : pool().by_size) {
      unused.insert(unused.end(), blocks.free.begin(), blocks.free.end());
      std::ranges::move(blocks.owed, std::back_inserter(owed));
      blocks.total -= blocks.free.size() + blocks.owed.size();
      blocks.free.clear();
      blocks.owed.clear();
    }
  }
  for (const Owed& one : owed) {
    cudaEventSynchronize(one.event.get());
    unused.push_back(one.block);
  }
  for (void* block : unused) unpin(block);
  pinned_allocator().trim();
}

cudaError_t pin(std::size_t bytes, void** block) {
  const cudaError_t status = cudaMallocHost(block, bytes);
  if (status != cudaErrorMemoryAllocation) return status;
  cudaGetLastError();  // which would be the next launch's
  release_unused();
  return cudaMallocHost(block, bytes);
}

/// Null where memory is out.
void* allocate_for_tensors(std::size_t bytes) {
  void* block = nullptr;
  const cudaError_t status = pin(bytes, &block);
  if (status == cudaSuccess) return block;
  if (status != cudaErrorMemoryAllocation) check(status, "pin memory of the CPU");
  cudaGetLastError();
  return nullptr;
}

}  // namespace

Pinned::Pinned(std::size_t bytes)
    : data_(take_free(pinned_block(bytes))), bytes_(pinned_block(bytes)) {
  if (data_) return;
  const cudaError_t status = pin(bytes_, &data_);
  if (status != cudaErrorMemoryAllocation) {
    check(status, "pin memory of the CPU");
    return;
  }
  cudaGetLastError();
  throw OutOfMemory(fmt::format("CUDA could not pin {} of host memory", bytes_text(bytes_)),
                    "give the process or its job more host memory, or lower `batch_size`");
}

Pinned::~Pinned() {
  if (!data_) return;
  const std::lock_guard lock(pool().mutex);
  pool().by_size[bytes_].free.push_back(data_);
}

void Pinned::give_back_after(cudaStream_t stream) && {
  try {
    Event event = Event::record(stream);
    const std::lock_guard lock(pool().mutex);
    pool().by_size[bytes_].owed.push_back({data_, std::move(event)});
    data_ = nullptr;
  } catch (...) {
    cudaStreamSynchronize(stream);  // the destructor gives it back
    throw;
  }
}

CachingAllocator& pinned_allocator() {
  static auto* allocator = new CachingAllocator(
      Device::cpu(), {.allocate = allocate_for_tensors,
                      .release = [](void* block, std::size_t) { unpin(block); }});
  return *allocator;
}

bool is_pinned(const Tensor& tensor) {
  return tensor.storage()->allocator() == &pinned_allocator();
}

}  // namespace troupe::cuda
