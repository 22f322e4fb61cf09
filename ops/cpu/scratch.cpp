#include "ops/cpu/scratch.h"

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace troupe::cpu {
namespace {
constexpr std::align_val_t alignment{64};
}

void Scratch::Free::operator()(std::byte* data) const { ::operator delete(data, alignment); }

struct Scratch::Pool {
  std::mutex mutex;
  std::vector<Block> blocks;  ///< the last one was used last
  std::size_t peak = 0;
};

Scratch::Pool& Scratch::pool() {
  // Never destroyed: kernels may run while other statics go.
  static auto* pool = new Pool;
  return *pool;
}

Scratch::Scratch(std::size_t bytes) {
  if (bytes == 0) return;
  {
    std::lock_guard lock(pool().mutex);
    pool().peak = std::max(pool().peak, bytes);
    if (!pool().blocks.empty()) {
      block_ = std::move(pool().blocks.back());
      pool().blocks.pop_back();
    }
  }
  if (block_.bytes >= bytes) return;
  block_ = {};  // gives the memory back before asking for more
  block_.data.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
  block_.bytes = bytes;
}

std::size_t Scratch::take_peak() {
  std::lock_guard lock(pool().mutex);
  return std::exchange(pool().peak, 0);
}

Scratch::~Scratch() {
  if (block_.bytes == 0) return;
  std::lock_guard lock(pool().mutex);
  pool().blocks.push_back(std::move(block_));
}

}  // namespace troupe::cpu
