#include "ops/cpu/reorder.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>

#include "ops/cpu/families.h"
#include "ops/cpu/onednn.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

struct PreparedReorder {
  Shape shape;
  Layout from;
  Layout to;
  int threads;
  PreparedPrimitive copy;
};

// One cache a thread, because a prepared primitive serves one caller at a time. It holds compiled
// code only, so nothing that can be seen depends on which thread runs an actor.
PreparedPrimitive& prepared_reorder(const Stream& stream, const Shape& shape, Layout from,
                                    Layout to) {
  constexpr std::size_t most = 32;
  thread_local std::deque<PreparedReorder> cache;
  for (auto& entry : cache)
    if (entry.from == from && entry.to == to && entry.threads == stream.threads &&
        entry.shape == shape)
      return entry.copy;
  if (cache.size() == most) cache.pop_back();
  cache.push_front({shape, from, to, stream.threads,
                    prepare_copy(stream, onednn_memory(shape, from), onednn_memory(shape, to))});
  return cache.front().copy;
}

}  // namespace

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
  PreparedPrimitive& copy = prepared_reorder(stream, from.shape(), from.layout(), to.layout());
  copy.set(DNNL_ARG_FROM, from.raw());
  copy.set(DNNL_ARG_TO, to.raw());
  copy.run(copy_stream(stream, from.bytes()));
}

Tensor in_layout(const Stream& stream, const Tensor& tensor, Layout layout) {
  if (tensor.layout() == layout) return tensor;
  Tensor copy = Tensor::empty(tensor.shape(), tensor.dtype(), layout);
  reorder(stream, tensor, copy);
  return copy;
}

void fill_reorder(KernelTable& table) { table.reorder = reorder; }

}  // namespace troupe::cpu
