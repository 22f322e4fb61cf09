#include "ops/cpu/scratch.h"

#include <algorithm>
#include <new>
#include <utility>

#include "ops/cpu/kernel_caches.h"

namespace troupe::cpu {
namespace {
constexpr std::align_val_t alignment{64};
}

void ScratchPool::Free::operator()(std::byte* data) const { ::operator delete(data, alignment); }

ScratchPool::Block ScratchPool::take(std::size_t bytes) {
  Block block;
  {
    const std::lock_guard lock(mutex_);
    peak_ = std::max(peak_, bytes);
    if (!blocks_.empty()) {
      block = std::move(blocks_.back());
      blocks_.pop_back();
    }
  }
  if (block.bytes >= bytes) return block;
  block = {};  // gives the memory back before asking for more
  block.data.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
  block.bytes = bytes;
  return block;
}

void ScratchPool::give_back(Block block) {
  const std::lock_guard lock(mutex_);
  blocks_.push_back(std::move(block));
}

std::size_t ScratchPool::take_peak() {
  const std::lock_guard lock(mutex_);
  return std::exchange(peak_, 0);
}

Scratch::Scratch(std::size_t bytes) {
  if (bytes > 0) block_ = kernel_caches().scratch.take(bytes);
}

Scratch::~Scratch() {
  if (block_.bytes > 0) kernel_caches().scratch.give_back(std::move(block_));
}

}  // namespace troupe::cpu
