#pragma once
// Inside the shared-memory transport: the rings of descriptors between two ranks.

#include <array>
#include <atomic>
#include <cstdint>

#include "runtime/transport/shm/arena.h"

namespace troupe::transport {

/// A sent tensor, as the ring describes it. The receiver checks all of it.
struct Descriptor {
  std::uint64_t sequence = 0;  ///< in the ring, from 0
  std::uint64_t tag = 0;
  std::uint64_t offset = 0;  ///< of the block in its segment
  std::uint64_t bytes = 0;   ///< of the tensor
  std::uint32_t segment = 0;
  std::uint32_t use = 0;
  std::uint8_t dtype = 0, layout = 0, rank = 0;
  std::uint8_t unused[5] = {};
  std::array<std::int64_t, 6> dims{};

  void set_block(const Block& block, std::size_t data_bytes) {
    segment = block.segment->number;
    offset = block.offset;
    use = block.use;
    bytes = data_bytes;
  }
};
static_assert(sizeof(Descriptor) == 96);

/// One producer and one consumer in different processes. Positions count descriptors and never
/// wrap. An impossible position shows that the ring is damaged.
struct Ring {
  static constexpr std::uint64_t capacity = 256;
  alignas(64) std::atomic<std::uint64_t> produced;
  alignas(64) std::atomic<std::uint64_t> consumed;
  alignas(64) std::array<Descriptor, capacity> entries;
};

/// Memory of one pair of ranks; side 0 is the lower rank.
struct PairMemory {
  struct Side {
    alignas(64) std::atomic<std::uint32_t> sleeping;    ///< wants its bell rung for a descriptor
    alignas(64) std::atomic<std::uint32_t> wants_room;  ///< ... for room in a ring
  };
  std::array<Side, 2> sides;
  std::array<Ring, 2> to;  ///< to[s] is filled for side s
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The producer's end. The caller provides the lock.
class RingWriter {
 public:
  explicit RingWriter(Ring& ring) : ring_(&ring) {}

  enum class Outcome { written, full, damaged };
  Outcome write(Descriptor descriptor) {
    const std::uint64_t waiting = next_ - ring_->consumed.load(std::memory_order_acquire);
    if (waiting > Ring::capacity) return Outcome::damaged;
    if (waiting == Ring::capacity) return Outcome::full;
    descriptor.sequence = next_;
    ring_->entries[next_ % Ring::capacity] = descriptor;
    ring_->produced.store(++next_, std::memory_order_seq_cst);
    return Outcome::written;
  }

 private:
  Ring* ring_;
  std::uint64_t next_ = 0;
};

/// The consumer's end. The caller provides the lock.
class RingReader {
 public:
  explicit RingReader(Ring& ring) : ring_(&ring) {}

  enum class Outcome { read, empty, damaged };
  Outcome read(Descriptor& descriptor) {
    const std::uint64_t waiting = ring_->produced.load(std::memory_order_seq_cst) - next_;
    if (waiting == 0) return Outcome::empty;
    if (waiting > Ring::capacity) return Outcome::damaged;
    descriptor =
        ring_->entries[next_ % Ring::capacity];  // a copy: the peer could change it after the check
    if (descriptor.sequence != next_) return Outcome::damaged;
    ring_->consumed.store(++next_, std::memory_order_seq_cst);
    return Outcome::read;
  }

 private:
  Ring* ring_;
  std::uint64_t next_ = 0;
};

}  // namespace troupe::transport
