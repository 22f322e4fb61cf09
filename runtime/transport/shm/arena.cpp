#include "runtime/transport/shm/arena.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "runtime/error.h"

namespace troupe::transport {
namespace {

constexpr std::size_t page = 4096;
/// Small blocks share a segment of at least this size.
constexpr std::size_t smallest_segment = std::size_t{1} << 20;

std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

}  // namespace

/// The class of a block: eight steps between powers of two, so at most an eighth is wasted.
std::size_t Arena::stride_of(std::size_t bytes) {
  const std::size_t needed = bytes + block_header_bytes;
  const std::size_t step = std::max<std::size_t>(std::bit_floor(needed) / 8, 64);
  return round_up(needed, step);
}

std::size_t Arena::segment_bytes(std::size_t stride) {
  return round_up(std::max(stride, smallest_segment), page);
}

bool Arena::could_hold(std::size_t bytes) const {
  return bytes <= limit_ && segment_bytes(stride_of(bytes)) <= limit_;
}

std::optional<Block> Arena::allocate(std::size_t bytes, std::uint32_t holders, bool beyond_limit) {
  const std::size_t stride = stride_of(bytes);
  const std::lock_guard lock(mutex_);
  std::vector<Slab>& slabs = slabs_[stride];
  const auto take = [&](const Slab& slab, std::size_t index) {
    Block block{slab.segment, index * slab.stride, 0};
    block.use = block.header().use.fetch_add(1, std::memory_order_relaxed) + 1;
    block.header().holders.store(holders, std::memory_order_relaxed);
    return block;
  };
  // The first free one: a block just used again is still in the caches.
  for (const Slab& slab : slabs)
    for (std::size_t index = 0; index < slab.blocks; ++index) {
      const Block block{slab.segment, index * stride, 0};
      if (block.header().holders.load(std::memory_order_acquire) == 0) return take(slab, index);
    }
  const std::size_t size = segment_bytes(stride);
  if (!beyond_limit && !make_room(size)) return std::nullopt;
  slabs.push_back({std::make_shared<Segment>(Segment{next_number_++, SharedMemory::create(size)}),
                   stride, size / stride});
  mapped_ += size;
  return take(slabs.back(), 0);
}

bool Arena::unused(const Slab& slab) {
  for (std::size_t index = 0; index < slab.blocks; ++index)
    if (Block{slab.segment, index * slab.stride, 0}.header().holders.load(
            std::memory_order_acquire) != 0)
      return false;
  return true;
}

/// Gives up segments of other sizes that nobody uses until `bytes` more are within the limit.
bool Arena::make_room(std::size_t bytes) {
  for (auto& [stride, slabs] : slabs_) {
    for (std::size_t index = slabs.size(); index-- > 0 && mapped_ + bytes > limit_;) {
      if (!unused(slabs[index])) continue;
      retired_.push_back(slabs[index].segment->number);
      mapped_ -= slabs[index].segment->memory->bytes();
      slabs.erase(slabs.begin() + static_cast<std::ptrdiff_t>(index));
    }
  }
  return mapped_ + bytes <= limit_;
}

std::size_t Arena::mapped_bytes() const {
  const std::lock_guard lock(mutex_);
  return mapped_;
}

bool Arena::has_retired() const {
  const std::lock_guard lock(mutex_);
  return !retired_.empty();
}

std::vector<std::uint32_t> Arena::take_retired() {
  const std::lock_guard lock(mutex_);
  return std::exchange(retired_, {});
}

}  // namespace troupe::transport
