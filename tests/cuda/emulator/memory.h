#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "shadow.h"

namespace cuda_on_cpu {

enum class Place : std::uint8_t { device, pinned, shared };

struct Region {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  Place place = Place::device;
  bool checked = true;             ///< accesses are remembered
  std::unique_ptr<Shadow> shadow;  ///< null once it was freed
};

struct MemoryCounts {
  std::size_t device_bytes = 0, peak_device_bytes = 0, pinned_bytes = 0;
  int device_blocks = 0, pinned_blocks = 0;
};

/// The memory of the device and the pinned memory of the host. No address is given twice, so that
/// an access after the end of a region is known from one of the next region that begins there.
class Memory {
 public:
  static Memory& get();

  /// Filled with NaNs; null when the limit is reached. Thread-safe.
  std::byte* allocate(std::size_t bytes, Place place);
  /// With the lock.
  void release(Region& region);

  /// Any thread may ask, without the lock.
  bool contains(const void* address) const {
    return static_cast<std::uintptr_t>(static_cast<const std::byte*>(address) - arena_) <
           arena_bytes;
  }
  /// The region at this address of the arena, or the last one that begins before it and whose
  /// guard reaches there; null if there is none. With the lock.
  Region* find(const void* address);

  /// Held by a kernel or a copy from its beginning to its end, and by accesses of the host.
  std::mutex& mutex() { return mutex_; }
  void set_limits(std::size_t device_bytes, std::size_t pinned_bytes);
  /// Whether memory that is allocated from now on is filled and checked.
  void set_checked(bool checked);
  MemoryCounts counts();
  /// Of the device: what is free, and what there is.
  void tell(std::size_t* free, std::size_t* total);
  void reset_peak();

 private:
  static constexpr std::size_t arena_bytes = std::size_t{1} << 38, page = 4096;
  Memory();

  std::mutex mutex_;
  std::byte* arena_;
  std::size_t used_ = 0;  ///< bytes of the arena
  std::size_t device_limit_ = SIZE_MAX, pinned_limit_ = SIZE_MAX;
  bool checked_ = true;
  std::vector<std::uint32_t> region_of_page_;  ///< by page: one more than the index of a region
  std::vector<std::unique_ptr<Region>> regions_;
  MemoryCounts counts_;
};

}  // namespace cuda_on_cpu
