#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// y = x * w + b for x [N, in_channels, H, W], as PyTorch's Conv2d. Saves x.
struct Convolution2d {
  static constexpr std::string_view name = "convolution2d";

  ConvolutionOptions options;
  ConvolutionKernel* kernel = nullptr;  ///< of the module, which outlives the tape
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
