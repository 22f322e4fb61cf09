#include "runtime/transport/shm/arena.h"

#include <algorithm>
#include <bit>

namespace troupe::transport {
namespace {

constexpr std::size_t page = 4096;
/// Small blocks share a segment of at least this size.
constexpr std::size_t smallest_segment = std::size_t{1} << 20;

std::size_t round_up(std::size_t bytes, std::size_t step) {
  return (bytes + step - 1) / step * step;
}

}  // namespace

/// The size class of a block: eight steps between powers of two, so at most an eighth is wasted.
std::size_t Arena::stride_of(std::size_t bytes) {
  const std::size_t needed = bytes + block_header_bytes;
  const std::size_t step = std::max<std::size_t>(std::bit_floor(needed) / 8, 64);
  return round_up(needed, step);
}

std::size_t Arena::segment_bytes(std::size_t stride) {
  return round_up(std::max(stride, smallest_segment), page);
}

Block Arena::Class::block(std::size_t index) const {
  return {segments[index / blocks_each()], index % blocks_each() * stride, 0};
}

std::optional<Block> Arena::Class::find(std::size_t begin, std::size_t count) const {
  for (std::size_t step = 0; step < count; ++step) {
    Block found = block((begin + step) % blocks());
    if (found.header().holders.load(std::memory_order_acquire) == 0) return found;
  }
  return std::nullopt;
}

/// Looks at the first blocks, which are still in the caches, then at some of the others in turn.
/// With thousands of blocks in use, a search through all would cost more than another segment.
std::optional<Block> Arena::Class::find() {
  constexpr std::size_t first = 64, further = 64;
  if (auto found = find(0, std::min(first, blocks()))) return found;
  if (blocks() <= first) return std::nullopt;
  auto found = find(next, further);
  next = (next + further) % blocks();
  return found;
}

Block Arena::allocate(std::size_t bytes) {
  const std::size_t stride = stride_of(bytes);
  const std::lock_guard lock(mutex_);
  Class& blocks = classes_[stride];
  blocks.stride = stride;
  std::optional<Block> found = blocks.find();
  if (!found) {
    blocks.segments.push_back(std::make_shared<Segment>(
        Segment{next_number_, SharedMemory::create(segment_bytes(stride))}));
    ++next_number_;
    found = blocks.block(blocks.blocks() - blocks.blocks_each());
  }
  found->use = found->header().use.fetch_add(1, std::memory_order_relaxed) + 1;
  found->header().holders.store(1, std::memory_order_relaxed);
  return *found;
}

}  // namespace troupe::transport
