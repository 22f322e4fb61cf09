#pragma once
#include "runtime/tensor/tensor.h"

namespace troupe {

float to_float(BFloat16 value);
float to_float(Float16 value);
/// Rounded to nearest, ties to even.
BFloat16 to_bfloat16(float value);
Float16 to_float16(float value);

/// The tensor itself if it has this element type, else a converted copy of the same layout.
/// Floating-point types only (f32, f64, bf16, f16), in the CPU's memory; throws Error{unsupported}
/// for others, naming both.
Tensor cast(const Tensor& tensor, DType dtype);

/// A tensor of any type as one of f64, or of i64 for integers and truth values: itself, or a
/// converted copy of the same layout, in the CPU's memory. Of u64 the values beyond i64 wrap.
Tensor widest(const Tensor& tensor);

}  // namespace troupe
