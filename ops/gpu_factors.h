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

/// How a GPU multiplies the factors of a convolution.
struct ConvolutionForm {
  Layout layout;
  DType dtype;
  bool tf32;  ///< f32 may be rounded to TF32
};
/// For images of this type and layout.
inline ConvolutionForm convolution_form(const Stream& stream, DType dtype, Layout layout) {
  const DType factors = factor_type(stream, dtype);
  return {uses_tensor_cores(stream, factors) ? Layout::nhwc : layout, factors,
          stream.conv_tf32 && factors == DType::f32};
}

}  // namespace troupe
