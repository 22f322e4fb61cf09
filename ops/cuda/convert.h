#pragma once
#include "ops/widened.h"

namespace troupe::cuda {

/// to = from, of the same shape and layout: f32 to or from f64, bf16 or f16, or any of these to
/// itself.
/// Rounds to the nearest number; f16 is infinite beyond 65,504. Throws Error{unsupported} for other
/// types.
void convert(const Stream& stream, const Tensor& from, Tensor& to);

/// The tensor in a layout and type: itself if it has them, else a copy.
Tensor in_form(const Stream& stream, const Tensor& tensor, Layout layout, DType dtype);

/// The type in which convolutions and linear layers multiply numbers of `dtype`, and of their
/// results.
inline DType factor_type(const Stream& stream, DType dtype) {
  return dtype == DType::f32 ? stream.products : dtype;
}

}  // namespace troupe::cuda
