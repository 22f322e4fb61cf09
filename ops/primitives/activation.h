#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// A function of each element, in the layout of x. Saves its output where derives_from_output, else
/// x. At the edges of its pieces the derivative of hardsigmoid and hardswish is that of the outer
/// piece, as in PyTorch.
struct Activate {
  static constexpr std::string_view name = "activate";

  ActivationFunction function = ActivationFunction::sigmoid;
  struct Saved {
    Tensor tensor;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  std::vector<Tensor> saved() const { return {state.tensor}; }
};

/// y = min(max(x, low), high), in the layout of x; a bound may be infinite. The gradient is 0
/// outside the bounds and at them, as of PyTorch's clamp and hardtanh. Saves x.
struct Clamp {
  static constexpr std::string_view name = "clamp";

  double low = 0.0, high = 0.0;
  struct Saved {
    Tensor x;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  std::vector<Tensor> saved() const { return {state.x}; }
};

}  // namespace troupe::primitives
