#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace cuda_on_cpu {

/// An access to memory: by which thread of which operation, between which barriers.
struct Access {
  std::uint32_t operation = 0;  ///< its number in its stream; 0: none
  std::uint32_t block = 0;
  std::uint16_t stream = 0;
  std::uint16_t thread = 0;
  std::uint16_t barrier = 0;       ///< __syncthreads before it in the block
  std::uint16_t warp_barrier = 0;  ///< __syncwarp before it in the warp

  bool same_operation(const Access& other) const {
    return operation == other.operation && stream == other.stream;
  }
  bool same_block(const Access& other) const {
    return same_operation(other) && block == other.block;
  }
  bool same_thread(const Access& other) const {
    return same_block(other) && thread == other.thread;
  }
};
static_assert(sizeof(Access) == 16);

/// The last accesses of a few bytes of memory.
struct Cell {
  Access write;
  Access reader, other_reader;  ///< since the write: two threads of the last operation
  Access concurrent_reader;     ///< of an earlier operation that may still run
};

/// The cells of a region of memory: one for four bytes until somebody accesses fewer, then one for
/// each byte.
class Shadow {
 public:
  explicit Shadow(std::size_t bytes);
  ~Shadow();
  Shadow(const Shadow&) = delete;
  Shadow& operator=(const Shadow&) = delete;

  /// Of an access that lies within the region.
  std::span<Cell> cells(std::size_t offset, std::size_t bytes) {
    if (grain_ != 1 && (offset | bytes) % grain_ != 0) refine();
    return {cells_ + offset / grain_, bytes / grain_};
  }
  std::span<Cell> all() { return {cells_, count()}; }

 private:
  std::size_t count() const { return (bytes_ + grain_ - 1) / grain_; }
  void refine();

  std::size_t bytes_;
  std::size_t grain_ = 4;
  Cell* cells_;
};

}  // namespace cuda_on_cpu
