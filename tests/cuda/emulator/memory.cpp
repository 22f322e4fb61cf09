#include "memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace cuda_on_cpu {

// Never destroyed: the device's thread runs until the process has ended.
Memory& Memory::get() {
  static auto* memory = new Memory;
  return *memory;
}

// Addresses only; pages come when they are first touched.
Memory::Memory()
    : arena_(static_cast<std::byte*>(mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))) {
  if (static_cast<void*>(arena_) == MAP_FAILED) throw std::bad_alloc();
}

std::byte* Memory::allocate(std::size_t bytes, Place place) {
  const std::lock_guard lock(mutex_);
  const bool device = place == Place::device;
  std::size_t& in_use = device ? counts_.device_bytes : counts_.pinned_bytes;
  const std::size_t limit = device ? device_limit_ : pinned_limit_;
  if (bytes > limit - std::min(limit, in_use)) return nullptr;
  const std::size_t pages = (bytes + page - 1) / page + 1;  // and one that catches what is beyond
  if (pages > (arena_bytes - used_) / page) return nullptr;
  auto region = std::make_unique<Region>();
  region->begin = arena_ + used_;
  region->bytes = bytes;
  region->place = place;
  region->checked = checked_;
  region->shadow = std::make_unique<Shadow>(checked_ ? bytes : 0);
  if (checked_) std::memset(region->begin, 0xff, bytes);
  regions_.push_back(std::move(region));
  region_of_page_.resize(region_of_page_.size() + pages,
                         static_cast<std::uint32_t>(regions_.size()));
  used_ += pages * page;
  in_use += bytes;
  ++(device ? counts_.device_blocks : counts_.pinned_blocks);
  counts_.peak_device_bytes = std::max(counts_.peak_device_bytes, counts_.device_bytes);
  return regions_.back()->begin;
}

void Memory::release(Region& region) {
  region.shadow.reset();
  madvise(region.begin, (region.bytes + page - 1) / page * page, MADV_DONTNEED);
  const bool device = region.place == Place::device;
  (device ? counts_.device_bytes : counts_.pinned_bytes) -= region.bytes;
  --(device ? counts_.device_blocks : counts_.pinned_blocks);
}

Region* Memory::find(const void* address) {
  const std::size_t at =
      static_cast<std::size_t>(static_cast<const std::byte*>(address) - arena_) / page;
  return at < region_of_page_.size() ? regions_[region_of_page_[at] - 1].get() : nullptr;
}

void Memory::set_checked(bool checked) {
  const std::lock_guard lock(mutex_);
  checked_ = checked;
}

void Memory::set_limits(std::size_t device_bytes, std::size_t pinned_bytes) {
  const std::lock_guard lock(mutex_);
  device_limit_ = device_bytes;
  pinned_limit_ = pinned_bytes;
}

MemoryCounts Memory::counts() {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void Memory::tell(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(mutex_);
  *total = std::min(device_limit_, arena_bytes);
  *free = *total - std::min(*total, counts_.device_bytes);
}

void Memory::reset_peak() {
  const std::lock_guard lock(mutex_);
  counts_.peak_device_bytes = counts_.device_bytes;
}

}  // namespace cuda_on_cpu
