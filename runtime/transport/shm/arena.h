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

/// At the head of every block, in shared memory; the data follow. A peer can write anything here:
/// the arena relies only on `holders`, where zero means free.
struct BlockHeader {
  std::atomic<std::uint32_t> holders;  ///< 1 until the receiver has dropped the block
  std::atomic<std::uint32_t> use;      ///< counts how often the block was filled
};
inline constexpr std::size_t block_header_bytes = 64;
static_assert(sizeof(BlockHeader) <= block_header_bytes);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// A memfd of an arena. Peers know it by its number.
struct Segment {
  std::uint32_t number = 0;
  std::shared_ptr<SharedMemory> memory;
};

/// A block of the arena, from allocate() until the receiver frees it.
struct Block {
  std::shared_ptr<const Segment> segment;
  std::size_t offset = 0;  ///< of the header in the segment
  std::uint32_t use = 0;

  BlockHeader& header() const {
    return *reinterpret_cast<BlockHeader*>(segment->memory->data() + offset);
  }
  std::byte* data() const { return segment->memory->data() + offset + block_header_bytes; }
  void free() const { header().holders.fetch_sub(1, std::memory_order_release); }
};

/// Allocates blocks in segments that grow on demand. Receivers free blocks by their headers, and
/// the arena finds them by reading the headers. The size classes of blocks are an eighth apart; all
/// blocks of a segment have one class. Thread-safe.
class Arena {
 public:
  /// A block for `bytes` of data, held by the receiver. Throws Error{io} if the system has no
  /// memory for it.
  Block allocate(std::size_t bytes);

 private:
  /// Segments of one stride, all of the same size.
  struct Class {
    std::vector<std::shared_ptr<const Segment>> segments;
    std::size_t stride = 0;
    std::size_t next = 0;  ///< where the next search begins, beyond the first blocks

    std::size_t blocks_each() const { return segment_bytes(stride) / stride; }
    std::size_t blocks() const { return segments.size() * blocks_each(); }
    Block block(std::size_t index) const;
    std::optional<Block> find(std::size_t begin, std::size_t count) const;
    std::optional<Block> find();
  };
  static std::size_t stride_of(std::size_t bytes);
  static std::size_t segment_bytes(std::size_t stride);

  std::mutex mutex_;
  std::map<std::size_t, Class> classes_;  ///< by stride
  std::uint32_t next_number_ = 0;
};

}  // namespace troupe::transport
