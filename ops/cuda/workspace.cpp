#include "ops/cuda/workspace.h"

#include <atomic>

#include "ops/cuda/elements.h"

namespace troupe::cuda {
namespace {

std::atomic<std::size_t> peak{0};

}  // namespace

Tensor workspace(const Stream& stream, std::size_t bytes) {
  if (bytes == 0) return {};
  std::size_t before = peak.load();
  while (before < bytes && !peak.compare_exchange_weak(before, bytes)) {
  }
  Tensor block = result(stream, {static_cast<std::int64_t>(bytes)}, DType::u8);
  note_use(stream, block);
  return block;
}

std::size_t take_workspace_peak() { return peak.exchange(0); }

}  // namespace troupe::cuda
