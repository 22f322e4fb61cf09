#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "runtime/tensor/device.h"

namespace troupe {

/// What an allocator did so far; the memory bound of a run is held against `peak_bytes`.
struct AllocatorCounters {
  std::size_t in_use_bytes = 0;  ///< held by live tensors, rounded up to size classes
  std::size_t peak_bytes = 0;    ///< the most that in_use_bytes has been since reset_peak()
  std::size_t cached_bytes = 0;  ///< free blocks kept for reuse
  std::uint64_t allocations = 0;
  std::uint64_t reused = 0;  ///< allocations served from cached blocks
};

/// Keeps freed blocks by size class and hands them out again. Blocks are 64-byte aligned.
/// Thread-safe: tensors are freed by whichever thread drops the last handle.
class CachingAllocator {
 public:
  explicit CachingAllocator(Device device = {});
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  Device device() const { return device_; }
  void* allocate(std::size_t bytes);  ///< throws Error with the sizes when memory is out
  void release(void* block, std::size_t bytes) noexcept;
  AllocatorCounters counters() const;
  void reset_peak();
  void trim();  ///< gives cached blocks back to the system

  /// The allocator that tensors use unless told otherwise: one a device, alive for the process.
  static CachingAllocator& of(Device device);

 private:
  struct State;
  Device device_;
  std::unique_ptr<State> state_;
};

}  // namespace troupe
