#include "ops/cpu/reorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/cpu/kernel_caches.h"
#include "ops/cpu/kernels.h"
#include "runtime/error.h"

namespace troupe::cpu {

std::list<ReorderPool::Prepared> ReorderPool::take(const Stream& stream, const Tensor& from,
                                                   const Tensor& to) {
  std::list<Prepared> taken;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(free_, [&](const Prepared& entry) {
      return entry.from == from.layout() && entry.to == to.layout() && entry.dtype == to.dtype() &&
             entry.threads == stream.threads && entry.shape == from.shape();
    });
    if (found != free_.end()) taken.splice(taken.end(), free_, found);
  }
  if (taken.empty())
    taken.push_back({from.shape(), from.layout(), to.layout(), stream.threads, to.dtype(),
                     PreparedCopy(stream, onednn_memory(from.shape(), from.layout()),
                                  onednn_memory(to.shape(), to.layout(), to.dtype()))});
  return taken;
}

void ReorderPool::give_back(std::list<Prepared> taken) {
  constexpr std::size_t most = 64;
  const std::lock_guard lock(mutex_);
  free_.splice(free_.begin(), taken);
  if (free_.size() > most) free_.pop_back();
}

void reorder(const Stream& stream, const Tensor& from, Tensor& to) {
  if (from.shape() != to.shape() || from.dtype() != DType::f32 ||
      (to.dtype() != DType::f32 && to.dtype() != DType::bf16))
    throw Error(ErrorCode::bad_shape,
                fmt::format("reorder: {} {} into {} {}", name_of(from.dtype()),
                            to_string(from.shape()), name_of(to.dtype()), to_string(to.shape())),
                "both must be of one shape, the first f32 and the second f32 or bf16");
  if (from.element_count() == 0) return;
  if (from.layout() == to.layout() && from.dtype() == to.dtype()) {
    std::memcpy(to.raw(), from.raw(), from.bytes());
    return;
  }
  ReorderPool& pool = kernel_caches().reorders;
  auto prepared = pool.take(stream, from, to);
  prepared.front().copy.run(stream, from.raw(), to.raw());
  pool.give_back(std::move(prepared));
}

Tensor in_layout(const Stream& stream, const Tensor& tensor, Layout layout) {
  return in_layout(stream, tensor, layout, tensor.dtype());
}

Tensor in_layout(const Stream& stream, const Tensor& tensor, Layout layout, DType dtype) {
  if (tensor.layout() == layout && tensor.dtype() == dtype) return tensor;
  Tensor copy = Tensor::empty(tensor.shape(), dtype, stream.device, layout);
  reorder(stream, tensor, copy);
  return copy;
}

}  // namespace troupe::cpu
