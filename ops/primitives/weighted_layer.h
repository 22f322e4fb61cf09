#pragma once
#include <array>
#include <span>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// What the primitives with a weight and a bias have in common: a LayerKernel does their
/// arithmetic. Saves x.
struct WeightedLayer {
  LayerKernel* kernel = nullptr;  ///< of the module, which outlives the tape
  ParameterIndex weight;
  ParameterIndex bias;  ///< not given: no bias
  struct Saved {
    Tensor x;
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& x);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  void weight_gradient(const Pass& pass, const Tensor& grad);
  std::array<ParameterIndex, 2> parameters() const { return {weight, bias}; }
  std::vector<Tensor> saved() const { return {state.x}; }

 private:
  bool has_bias() const { return bias.value >= 0; }
  void use_weights(const Pass& pass);
};

}  // namespace troupe::primitives
