#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// The largest element of each window, as PyTorch's MaxPool2d. Saves x.
struct MaxPool2d {
  static constexpr std::string_view name = "max_pool2d";

  PoolOptions options;
  struct Saved {
    Tensor x;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  std::vector<Tensor> saved() const { return {state.x}; }
};

/// The mean of each window, as PyTorch's AvgPool2d; padding counts as zeros.
struct AveragePool2d {
  static constexpr std::string_view name = "average_pool2d";

  PoolOptions options;
  struct Saved {
    Shape x_shape;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

/// Means over windows that split the image into out_h x out_w parts, as PyTorch's
/// AdaptiveAvgPool2d.
struct AdaptiveAveragePool2d {
  static constexpr std::string_view name = "adaptive_average_pool2d";

  std::int64_t out_h = 1, out_w = 1;
  struct Saved {
    Shape x_shape;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
};

}  // namespace troupe::primitives
