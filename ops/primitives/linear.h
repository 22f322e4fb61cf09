#pragma once
#include <string_view>

#include "ops/primitives/weighted_layer.h"

namespace troupe::primitives {

/// y = x W^T + b for x [..., in_features] of at least two axes, as PyTorch's Linear. Row-major.
struct Linear : WeightedLayer {
  static constexpr std::string_view name = "linear";

  LinearOptions options;
  struct Given {
    Shape x_shape;
    Layout x_layout = Layout::row_major;
  } given = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  void weight_gradient(const Pass& pass, const Tensor& grad);
};

}  // namespace troupe::primitives
