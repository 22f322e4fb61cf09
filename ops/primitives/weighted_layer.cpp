#include "ops/primitives/weighted_layer.h"

namespace troupe::primitives {

Tensor WeightedLayer::forward(const Pass& pass, const Tensor& x) {
  use_weights(pass);
  state.x = x;
  return kernel->forward(pass.stream, x);
}

void WeightedLayer::input_gradient(const Pass& pass, const Tensor& grad,
                                   std::span<InputGradient> inputs) {
  if (!inputs[0].wanted) return;
  use_weights(pass);
  inputs[0].grad = kernel->input_gradient(pass.stream, grad, state.x.shape(), state.x.layout());
}

void WeightedLayer::weight_gradient(const Pass& pass, const Tensor& grad) {
  Tensor none;
  kernel->weight_gradient(pass.stream, state.x, grad, pass.weight_gradient(weight),
                          has_bias() ? pass.weight_gradient(bias) : none);
}

void WeightedLayer::use_weights(const Pass& pass) {
  kernel->use_weights(pass.stream, pass.weight(weight), has_bias() ? pass.weight(bias) : Tensor(),
                      pass.weights_version);
}

}  // namespace troupe::primitives
