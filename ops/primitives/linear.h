#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// y = x W^T + b for x [N, in_features], as PyTorch's Linear. Saves x.
struct Linear {
  static constexpr std::string_view name = "linear";

  LinearOptions options;
  LinearKernel* kernel = nullptr;  ///< of the module, which outlives the tape
  ParameterIndex weight;
  ParameterIndex bias;  ///< not given: no bias
  struct Saved {
    Tensor x;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  void weight_gradient(const Pass& pass, const Tensor& grad);
  std::vector<Tensor> saved() const { return {state.x}; }

 private:
  void use_weights(const Pass& pass);
};

}  // namespace troupe::primitives
