#pragma once
#include <string_view>

#include "ops/primitives/weighted_layer.h"

namespace troupe::primitives {

/// y = x W^T + b for x [N, in_features], as PyTorch's Linear.
struct Linear : WeightedLayer {
  static constexpr std::string_view name = "linear";

  LinearOptions options;

  Tensor forward(const Pass& pass, const Tensor& x);
};

}  // namespace troupe::primitives
