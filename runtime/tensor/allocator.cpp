#include "runtime/tensor/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <vector>

#include "runtime/device/block_uses.h"
#include "runtime/tensor/backend.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe {
namespace {

constexpr std::align_val_t alignment{64};

// More than any machine has, and far enough from overflow to be rounded up.
constexpr std::size_t most_bytes = std::size_t{1} << 62;

// Four classes for each power of two: at most a quarter of a block is unused.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= 256) return 256;
  if (bytes > most_bytes) return bytes;  // cannot be had; the system will say so
  const std::size_t step = std::bit_floor(bytes - 1) / 4;
  return (bytes + step - 1) / step * step;
}

constexpr DeviceMemory cpu_memory{
    .allocate = [](std::size_t bytes) { return ::operator new(bytes, alignment, std::nothrow); },
    .release = [](void* block, std::size_t) { ::operator delete(block, alignment); }};

/// Null where work is done when a call returns: what is freed there is in use no more.
BlockUses* uses_on(Device device) {
  const bool has_streams = device.backend && device.backend->block_uses;
  return has_streams ? &device.backend->block_uses(device.index) : nullptr;
}

/// Returns a block to the system. Its uses go first: once it is released, another thread may get
/// it again and use it.
void give_back(Device device, const DeviceMemory& memory, void* block, std::size_t size) {
  if (BlockUses* uses = uses_on(device)) uses->forget(block);
  memory.release(block, size);
}

}  // namespace

struct CachingAllocator::State {
  std::mutex mutex;
  std::map<std::size_t, std::vector<void*>> free_blocks;
  AllocatorCounters counters;
};

CachingAllocator::CachingAllocator() : CachingAllocator(Device::cpu(), cpu_memory) {}

CachingAllocator::CachingAllocator(Device device, const DeviceMemory& memory)
    : device_(device), memory_(memory), state_(std::make_unique<State>()) {}

CachingAllocator::~CachingAllocator() { trim(); }

void* CachingAllocator::allocate(std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  const auto count = [&](AllocatorCounters& counters) {
    ++counters.allocations;
    counters.in_use_bytes += size;
    counters.peak_bytes = std::max(counters.peak_bytes, counters.in_use_bytes);
  };
  {
    std::lock_guard lock(state_->mutex);
    const auto found = state_->free_blocks.find(size);
    if (found != state_->free_blocks.end() && !found->second.empty()) {
      void* block = found->second.back();
      found->second.pop_back();
      count(state_->counters);
      ++state_->counters.reused;
      state_->counters.cached_bytes -= size;
      return block;
    }
  }
  const auto allocate_block = [&] {  // null when memory is out
    return size > most_bytes ? nullptr : memory_.allocate(size);
  };
  void* block = allocate_block();
  if (!block) {
    trim();  // blocks of other sizes may make room
    block = allocate_block();
  }
  std::lock_guard lock(state_->mutex);
  if (!block)
    throw OutOfMemory(fmt::format("out of memory on {}: {} bytes requested, {} in use",
                                  to_string(device_), bytes, state_->counters.in_use_bytes),
                      "lower `batch_size`, raise `micro_batches`, or make the model smaller "
                      "(`Model::widths`) or its images (`image_size`)");
  count(state_->counters);
  return block;
}

void CachingAllocator::release(void* block, std::size_t bytes) noexcept {
  const std::size_t size = size_class(bytes);
  bool known = true;  // what uses it still
  try {
    if (BlockUses* uses = uses_on(device_)) uses->freed(block);
  } catch (...) {
    known = false;  // it can only be released, which waits for all of them
  }
  std::lock_guard lock(state_->mutex);
  state_->counters.in_use_bytes -= size;
  try {
    if (!known) return give_back(device_, memory_, block, size);
    state_->free_blocks[size].push_back(block);
    state_->counters.cached_bytes += size;
  } catch (const std::bad_alloc&) {  // no memory for the list: the block itself is some
    give_back(device_, memory_, block, size);
  }
}

AllocatorCounters CachingAllocator::counters() const {
  std::lock_guard lock(state_->mutex);
  return state_->counters;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(state_->mutex);
  state_->counters.peak_bytes = state_->counters.in_use_bytes;
}

void CachingAllocator::trim() {
  std::lock_guard lock(state_->mutex);
  for (auto& [size, blocks] : state_->free_blocks)
    for (void* block : blocks) give_back(device_, memory_, block, size);
  state_->free_blocks.clear();
  state_->counters.cached_bytes = 0;
}

CachingAllocator& CachingAllocator::of(Device device) {
  // Never destroyed: tensors in other statics may outlive any order of destruction.
  static auto* cpu = new CachingAllocator;
  return device.backend ? device.backend->allocator(device.index) : *cpu;
}

}  // namespace troupe
