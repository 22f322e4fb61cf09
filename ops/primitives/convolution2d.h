#pragma once
#include <string_view>

#include "ops/primitives/weighted_layer.h"

namespace troupe::primitives {

/// y = x * w + b for x [N, in_channels, H, W], as PyTorch's Conv2d.
struct Convolution2d : WeightedLayer {
  static constexpr std::string_view name = "convolution2d";

  ConvolutionOptions options;

  Tensor forward(const Pass& pass, const Tensor& x);
};

}  // namespace troupe::primitives
