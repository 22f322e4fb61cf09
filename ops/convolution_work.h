#pragma once
#include <compare>
#include <cstdint>

#include "ops/kernels.h"

namespace troupe {

enum class ConvolutionPass : std::uint8_t { forward, input_gradient, weight_gradient };

/// One pass of a convolution on a GPU: all that the choice of its plan depends on.
struct ConvolutionWork {
  ConvolutionPass pass = ConvolutionPass::forward;
  DType dtype = DType::f32;  ///< of factors and results: f32, bf16 or f16; sums are in f32
  ConvolutionOptions options;
  Shape x, y;
  bool bias = false;
  /// Of x, weight and y: row_major or nhwc. Without tensor cores, as for f32 without TF32, cuDNN
  /// has few kernels for nhwc: most of its plans copy x and y to row-major in their workspace and
  /// back. Those with tensor cores copy row-major images to nhwc.
  Layout layout = Layout::nhwc;
  bool tf32 = false;  ///< whether factors of f32 may be rounded to TF32
  /// Whether the additions have a fixed order, so that equal calls give equal bits.
  bool deterministic = true;
  // NOLINTNEXTLINE(modernize-use-nullptr): no pointer
  friend auto operator<=>(const ConvolutionWork&, const ConvolutionWork&) = default;
};

}  // namespace troupe
