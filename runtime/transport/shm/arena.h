#pragma once
// Inside the shared-memory transport: the blocks that a rank sends in.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/transport/shm/memory.h"

namespace troupe::transport {

/// At the head of every block, in shared memory; the data follow. A peer can write anything here,
/// so the arena believes nothing of it but that zero holders means free.
struct BlockHeader {
  std::atomic<std::uint32_t> holders;  ///< receivers that have not dropped the block
  std::atomic<std::uint32_t> use;      ///< counts how often the block was filled
};
inline constexpr std::size_t block_header_bytes = 64;
static_assert(sizeof(BlockHeader) <= block_header_bytes);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// A memfd of an arena, known to peers by its number.
struct Segment {
  std::uint32_t number = 0;
  std::shared_ptr<SharedMemory> memory;
};

/// A block of the arena, from allocate() on until its holders are gone.
struct Block {
  std::shared_ptr<const Segment> segment;
  std::size_t offset = 0;  ///< of the header in the segment
  std::uint32_t use = 0;

  BlockHeader& header() const {
    return *reinterpret_cast<BlockHeader*>(segment->memory->data() + offset);
  }
  std::byte* data() const { return segment->memory->data() + offset + block_header_bytes; }
};

/// Allocates blocks in segments that grow on demand, and finds blocks free again by looking: a
/// receiver frees one by counting down its holders. Blocks are of size classes an eighth apart and
/// of one class a segment. Thread-safe.
class Arena {
 public:
  /// `limit` bounds the segments together.
  explicit Arena(std::size_t limit) : limit_(limit) {}

  /// A free block for `bytes` of data, held by the receiver; none if there is no room now.
  std::optional<Block> allocate(std::size_t bytes);
  /// Whether a tensor of that size can be sent at all.
  bool could_hold(std::size_t bytes) const;

  /// Numbers of segments given up since the last call: peers should unmap them.
  std::vector<std::uint32_t> take_retired();
  bool has_retired() const;

 private:
  /// Segments of one stride, all of the same size.
  struct Class {
    std::vector<std::shared_ptr<const Segment>> segments;
    std::size_t stride = 0;
    std::size_t next = 0;  ///< where the search goes on beyond the first blocks

    std::size_t blocks_each() const { return segment_bytes(stride) / stride; }
    std::size_t blocks() const { return segments.size() * blocks_each(); }
    Block block(std::size_t index) const;
    std::optional<Block> find(std::size_t begin, std::size_t count) const;
  };
  static std::size_t stride_of(std::size_t bytes);
  static std::size_t segment_bytes(std::size_t stride);
  static std::optional<Block> find_soon(Class& blocks);
  bool make_room(std::size_t bytes);

  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::map<std::size_t, Class> classes_;  ///< by stride
  std::size_t mapped_ = 0;
  std::uint32_t next_number_ = 0;
  std::vector<std::uint32_t> retired_;
};

}  // namespace troupe::transport
