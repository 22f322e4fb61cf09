#include "runtime/tensor/allocator.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bytes_text.h"
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

DeviceMemory cpu_memory() {
  return {
      .allocate = [](std::size_t bytes) { return ::operator new(bytes, alignment, std::nothrow); },
      .release = [](void* block, std::size_t) { ::operator delete(block, alignment); }};
}

thread_local CachingAllocator* in_scope = nullptr;
thread_local int lasting_scopes = 0;

struct FreeBlock {
  void* block;
  const DeviceStream* user;  ///< as BlockUses::freed; null without streams
};

/// Takes the block that the stream freed last: it waits for nobody there, and may find it in a
/// cache. Else the one that was freed first, whose uses have most likely ended.
void* take_from(std::vector<FreeBlock>& blocks, const DeviceStream* stream) {
  const auto own = std::ranges::find(blocks.rbegin(), blocks.rend(), stream, &FreeBlock::user);
  const auto chosen = own == blocks.rend() ? blocks.begin() : std::prev(own.base());
  void* block = chosen->block;
  blocks.erase(chosen);
  return block;
}

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
  std::mutex mutex, trimming;
  std::map<std::size_t, std::vector<FreeBlock>> free_blocks;
  AllocatorCounters counters;
};

CachingAllocator::CachingAllocator() : CachingAllocator(Device::cpu(), cpu_memory()) {}

CachingAllocator::CachingAllocator(Device device, const DeviceMemory& memory)
    : device_(device), memory_(memory), state_(std::make_unique<State>()) {}

CachingAllocator::~CachingAllocator() { trim(); }

void* CachingAllocator::allocate(std::size_t bytes) {
  const std::size_t size = size_class(bytes);
  const auto count = [&](AllocatorCounters& counters) {
    ++counters.allocations;
    counters.in_use_bytes += size;
    counters.peak_bytes = std::max(counters.peak_bytes, counters.in_use_bytes);
    if (lasting_scopes > 0) counters.lasting_bytes += size;
  };
  {
    std::lock_guard lock(state_->mutex);
    const auto found = state_->free_blocks.find(size);
    if (found != state_->free_blocks.end() && !found->second.empty()) {
      void* block =
          take_from(found->second, uses_on(device_) ? BlockUses::likely_stream() : nullptr);
      count(state_->counters);
      ++state_->counters.reused;
      state_->counters.cached_bytes -= size;
      return block;
    }
  }
  std::optional<OutOfMemory> refused;
  const auto allocate_block = [&]() -> void* {  // null when memory is out
    if (size > most_bytes) return nullptr;
    try {
      return memory_.allocate(size);
    } catch (const OutOfMemory& error) {
      refused.emplace(error);
      return nullptr;
    }
  };
  void* block = allocate_block();
  // Blocks of other sizes make room, or another thread has just given some back.
  for (bool gave = true; !block && gave;) {
    gave = make_room(size);
    block = allocate_block();
  }
  std::lock_guard lock(state_->mutex);
  if (!block) {
    const std::string is =
        fmt::format("out of memory on {}: {} requested, {} in use", to_string(device_),
                    bytes_text(bytes), bytes_text(state_->counters.in_use_bytes));
    if (refused) throw OutOfMemory(is + ", " + refused->message(), refused->remedy());
    throw OutOfMemory(is,
                      "raise `micro_batches`, lower `batch_size`, or make the model smaller "
                      "(`Model::widths`) or its images (`image_size`)");
  }
  count(state_->counters);
  return block;
}

void CachingAllocator::release(void* block, std::size_t bytes) noexcept {
  const std::size_t size = size_class(bytes);
  bool known = true;  // what uses it still
  const DeviceStream* user = nullptr;
  try {
    if (BlockUses* uses = uses_on(device_)) user = uses->freed(block);
  } catch (...) {
    known = false;
  }
  {
    std::lock_guard lock(state_->mutex);
    state_->counters.in_use_bytes -= size;
    try {
      if (known) {
        state_->free_blocks[size].push_back({block, user});
        state_->counters.cached_bytes += size;
        return;
      }
    } catch (const std::bad_alloc&) {  // no memory for the list: the block itself is some
    }
  }
  give_back(device_, memory_, block, size);  // which waits for all that uses it
}

AllocatorCounters CachingAllocator::counters() const {
  std::lock_guard lock(state_->mutex);
  return state_->counters;
}

void CachingAllocator::reset_peak() {
  std::lock_guard lock(state_->mutex);
  state_->counters.peak_bytes = state_->counters.in_use_bytes;
}

// A device waits for its work before it gives memory back: without the lock, so that others free
// and get blocks meanwhile.
void CachingAllocator::trim() {
  // Whoever trims next finds that memory given back, and not on its way.
  const std::lock_guard one_at_a_time(state_->trimming);
  std::map<std::size_t, std::vector<FreeBlock>> free_blocks;
  {
    const std::lock_guard lock(state_->mutex);
    free_blocks = std::exchange(state_->free_blocks, {});
    state_->counters.cached_bytes = 0;
  }
  for (auto& [size, blocks] : free_blocks)
    for (const FreeBlock& one : blocks) give_back(device_, memory_, one.block, size);
}

// Allocates nothing itself: memory is out.
bool CachingAllocator::make_room(std::size_t bytes) {
  const std::lock_guard one_at_a_time(state_->trimming);
  std::size_t given = 0;
  while (given < bytes) {
    std::unique_lock lock(state_->mutex);
    const auto has_blocks = [](const auto& entry) { return !entry.second.empty(); };
    const auto largest =
        std::find_if(state_->free_blocks.rbegin(), state_->free_blocks.rend(), has_blocks);
    if (largest == state_->free_blocks.rend()) break;
    const auto size = largest->first;
    void* block = largest->second.back().block;
    largest->second.pop_back();
    state_->counters.cached_bytes -= size;
    lock.unlock();
    give_back(device_, memory_, block, size);
    given += size;
  }
  return given > 0;
}

CachingAllocator& CachingAllocator::of(Device device) {
  // Never destroyed: tensors in other statics may outlive any order of destruction.
  static auto* cpu = new CachingAllocator;
  if (in_scope && in_scope->device() == device) return *in_scope;
  return device.backend ? device.backend->allocator(device.index) : *cpu;
}

AllocationScope::AllocationScope(CachingAllocator* allocator)
    : before_(std::exchange(in_scope, allocator)) {}
AllocationScope::~AllocationScope() { in_scope = before_; }

LastingScope::LastingScope() : AllocationScope(nullptr) { ++lasting_scopes; }
LastingScope::~LastingScope() { --lasting_scopes; }

}  // namespace troupe
