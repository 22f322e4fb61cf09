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

/// One of the first, which are still in the caches, else one of the next in turn. With thousands
/// under way a search through all of them would cost more than another segment.
std::optional<Block> Arena::find_soon(Class& blocks) {
  constexpr std::size_t first = 64, further = 64;
  if (auto found = blocks.find(0, std::min(first, blocks.blocks()))) return found;
  if (blocks.blocks() <= first) return std::nullopt;
  auto found = blocks.find(blocks.next, further);
  blocks.next = (blocks.next + further) % blocks.blocks();
  return found;
}

std::optional<Block> Arena::allocate(std::size_t bytes) {
  const std::size_t stride = stride_of(bytes), size = segment_bytes(stride);
  const std::lock_guard lock(mutex_);
  Class& blocks = classes_[stride];
  blocks.stride = stride;
  std::optional<Block> found = find_soon(blocks);
  if (!found && mapped_ + size > limit_) found = blocks.find(0, blocks.blocks());
  if (!found && make_room(size)) {
    blocks.segments.push_back(
        std::make_shared<Segment>(Segment{next_number_++, SharedMemory::create(size)}));
    mapped_ += size;
    found = blocks.block(blocks.blocks() - blocks.blocks_each());
  }
  if (!found) return std::nullopt;
  found->use = found->header().use.fetch_add(1, std::memory_order_relaxed) + 1;
  found->header().holders.store(1, std::memory_order_relaxed);
  return found;
}

/// Gives up segments that nobody uses until `bytes` more are within the limit.
bool Arena::make_room(std::size_t bytes) {
  for (auto& [stride, blocks] : classes_) {
    const std::size_t each = segment_bytes(stride) / stride;
    for (std::size_t index = blocks.segments.size(); index-- > 0 && mapped_ + bytes > limit_;) {
      std::size_t free = 0;
      while (free < each && blocks.find(index * each + free, 1)) ++free;
      if (free < each) continue;
      retired_.push_back(blocks.segments[index]->number);
      mapped_ -= blocks.segments[index]->memory->bytes();
      blocks.segments.erase(blocks.segments.begin() + static_cast<std::ptrdiff_t>(index));
      blocks.next = 0;
    }
  }
  return mapped_ + bytes <= limit_;
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
