#include "ops/cuda/workspace.h"

#include <mutex>
#include <utility>

#include "ops/cuda/elements.h"

namespace troupe::cuda {
namespace {

struct Requested {
  std::mutex mutex;
  std::set<std::size_t> sizes;
};

Requested& requested() {
  static auto* one = new Requested;  // threads may outlive any order of destruction
  return *one;
}

}  // namespace

Tensor workspace(const Stream& stream, std::size_t bytes) {
  if (bytes == 0) return {};
  {
    const std::lock_guard lock(requested().mutex);
    requested().sizes.insert(bytes);
  }
  Tensor block = result(stream, {static_cast<std::int64_t>(bytes)}, DType::u8);
  note_use(stream, block);
  return block;
}

std::set<std::size_t> take_workspace_sizes() {
  const std::lock_guard lock(requested().mutex);
  return std::exchange(requested().sizes, {});
}

}  // namespace troupe::cuda
