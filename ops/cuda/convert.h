#pragma once
#include "runtime/tensor/tensor.h"

namespace troupe::cuda {

/// to = from, of the same shape and layout, both f32 or f64. Throws Error{unsupported} for others.
void convert(const Stream& stream, const Tensor& from, Tensor& to);

}  // namespace troupe::cuda
