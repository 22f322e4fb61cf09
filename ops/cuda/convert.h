#pragma once
#include "ops/widened.h"

namespace troupe::cuda {

/// to = from, of the same shape and layout: f32 to or from f64, bf16 or f16, or any of these to
/// itself. Rounds to the nearest number; f16 overflows to infinity above 65,504. Throws
/// Error{unsupported} for other types.
void convert(const Stream& stream, const Tensor& from, Tensor& to);

/// The tensor in a layout and type: itself if it has them, else a copy.
Tensor in_form(const Stream& stream, const Tensor& tensor, Layout layout, DType dtype);

}  // namespace troupe::cuda
