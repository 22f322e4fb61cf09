#include "ops/cpu/reorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ops/cpu/kernel_caches.h"
#include "ops/cpu/kernels.h"
#include "runtime/error.h"

namespace troupe::cpu {

std::list<ReorderPool::Prepared> ReorderPool::take(const Stream& stream, const Shape& shape,
                                                   Layout from, Layout to) {
  std::list<Prepared> taken;
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(free_, [&](const Prepared& entry) {
      return entry.from == from && entry.to == to && entry.threads == stream.threads &&
             entry.shape == shape;
    });
    if (found != free_.end()) taken.splice(taken.end(), free_, found);
  }
  if (taken.empty())
    taken.push_back({shape, from, to, stream.threads,
                     prepare_copy(stream, onednn_memory(shape, from), onednn_memory(shape, to))});
  return taken;
}

void ReorderPool::give_back(std::list<Prepared> taken) {
  constexpr std::size_t most = 64;
  const std::lock_guard lock(mutex_);
  free_.splice(free_.begin(), taken);
  if (free_.size() > most) free_.pop_back();
}

void reorder(const Stream& stream, const Tensor& from, Tensor& to) {
  if (from.shape() != to.shape() || from.dtype() != DType::f32 || to.dtype() != DType::f32)
    throw Error(ErrorCode::bad_shape,
                fmt::format("reorder: {} {} into {} {}", name_of(from.dtype()),
                            to_string(from.shape()), name_of(to.dtype()), to_string(to.shape())),
                "both must be f32 and of one shape");
  if (from.element_count() == 0) return;
  if (from.layout() == to.layout()) {
    std::memcpy(to.raw(), from.raw(), from.bytes());
    return;
  }
  ReorderPool& pool = kernel_caches().reorders;
  auto prepared = pool.take(stream, from.shape(), from.layout(), to.layout());
  PreparedPrimitive& copy = prepared.front().copy;
  copy.set(DNNL_ARG_FROM, from.raw());
  copy.set(DNNL_ARG_TO, to.raw());
  copy.run(copy_stream(stream, from.bytes()));
  pool.give_back(std::move(prepared));
}

Tensor in_layout(const Stream& stream, const Tensor& tensor, Layout layout) {
  if (tensor.layout() == layout) return tensor;
  Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), stream.device, layout);
  reorder(stream, tensor, copy);
  return copy;
}

}  // namespace troupe::cpu
