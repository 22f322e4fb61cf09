#pragma once
// How host code gets at the memory of tensors for a kernel: through these, or `raw()` after
// note_use(), so that every use of a block is noted (BlockUses).

#include "runtime/device/block_uses.h"
#include "runtime/tensor/tensor.h"

namespace troupe::cuda {

/// What a kernel of this stream reads; null for an undefined tensor. Throws as Tensor::data.
template <class T>
const T* input(const Stream& stream, const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  note_use(stream, tensor);
  return tensor.data<T>();
}

/// What a kernel of this stream writes, or reads and writes.
template <class T>
T* output(const Stream& stream, const Tensor& tensor) {
  if (!tensor.defined()) return nullptr;
  note_use(stream, tensor);
  return tensor.data<T>();
}

/// A result on the stream's device.
inline Tensor result(const Stream& stream, const Shape& shape, DType dtype,
                     Layout layout = Layout::row_major) {
  return Tensor::empty(shape, dtype, stream.device, layout);
}
inline Tensor result_like(const Stream& stream, const Tensor& tensor) {
  return result(stream, tensor.shape(), tensor.dtype(), tensor.layout());
}

/// Throws Error{bad_shape} unless both tensors have the same shape, layout and type.
void check_alike(const char* kernel, const Tensor& a, const Tensor& b);

/// Throws Error{unsupported} for another type than f32.
void check_f32(DType dtype);

/// Calls `f` with a float or a double, as the type says; throws Error{unsupported} for others.
template <class F>
decltype(auto) visit_float(DType dtype, F&& f) {
  if (dtype == DType::f64) return f(double());
  check_f32(dtype);
  return f(float());
}

}  // namespace troupe::cuda
