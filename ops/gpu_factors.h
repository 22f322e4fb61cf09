#pragma once
#include "ops/widened.h"

namespace troupe {

/// The type in which a GPU's convolutions and linear layers multiply numbers of `dtype`, and that
/// of their results.
inline DType factor_type(const Stream& stream, DType dtype) {
  return dtype == DType::f32 ? stream.products : dtype;
}
/// Whether a GPU's convolutions of such factors use tensor cores, which are at their best with
/// nhwc.
inline bool uses_tensor_cores(const Stream& stream, DType factors) {
  return is_narrow(factors) || (stream.conv_tf32 && factors == DType::f32);
}

}  // namespace troupe
