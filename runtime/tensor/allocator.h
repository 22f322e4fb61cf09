#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/tensor/device.h"

namespace troupe {

/// Counts of an allocator. Tests compare the memory bound of a run with `peak_bytes`.
struct AllocatorCounters {
  std::size_t in_use_bytes = 0;  ///< held by live tensors, rounded up to size classes
  std::size_t peak_bytes = 0;    ///< the most that in_use_bytes has been since reset_peak()
  std::size_t cached_bytes = 0;  ///< free blocks kept for reuse
  /// Of all blocks that were asked for in a LastingScope, also of those that are free again.
  std::size_t lasting_bytes = 0;
  std::uint64_t allocations = 0;
  std::uint64_t reused = 0;  ///< allocations served from cached blocks
};

/// Where an allocator's blocks come from, each aligned to 64 bytes. Thread-safe.
struct DeviceMemory {
  /// If memory is out: returns null, or throws OutOfMemory with the free bytes.
  std::function<void*(std::size_t bytes)> allocate;
  /// Waits, if work on the device may still use the block.
  std::function<void(void* block, std::size_t bytes)> release;
};

/// Keeps freed blocks by size class and hands them out again. Blocks are 64-byte aligned.
/// Thread-safe: any thread may drop the last handle of a tensor.
class CachingAllocator {
 public:
  CachingAllocator();  ///< of the CPU's memory
  CachingAllocator(Device device, const DeviceMemory& memory);
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  Device device() const { return device_; }
  void* allocate(std::size_t bytes);  ///< throws Error with the sizes when memory is out
  void release(void* block, std::size_t bytes) noexcept;
  AllocatorCounters counters() const;
  void reset_peak();
  void trim();  ///< gives cached blocks back to the system

  /// The allocator of a device: that of an AllocationScope of this thread, or that of the backend,
  /// which is alive as long as the process.
  static CachingAllocator& of(Device device);

 private:
  /// Gives back cached blocks, the largest first, until they have so many bytes. False if there are
  /// none.
  bool make_room(std::size_t bytes);

  struct State;
  Device device_;
  DeviceMemory memory_;
  std::unique_ptr<State> state_;
};

/// While it lives, the tensors that this thread makes on the allocator's device come from that
/// allocator, which outlives them.
class AllocationScope {
 public:
  explicit AllocationScope(CachingAllocator& allocator) : AllocationScope(&allocator) {}
  ~AllocationScope();
  AllocationScope(const AllocationScope&) = delete;
  AllocationScope& operator=(const AllocationScope&) = delete;

 protected:
  explicit AllocationScope(CachingAllocator* allocator);

 private:
  CachingAllocator* before_;
};

/// While it lives, no AllocationScope serves this thread. For tensors that are kept from one pass
/// to the next, such as the constants of a module.
class LastingScope : AllocationScope {
 public:
  LastingScope();
  ~LastingScope();
};

}  // namespace troupe
