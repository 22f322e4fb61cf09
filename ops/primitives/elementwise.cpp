#include "ops/primitives/elementwise.h"

namespace troupe::primitives {

Tensor Relu::forward(const Pass& pass, const Tensor& x) {
  state.y = pass.kernels().relu(pass.stream, x);
  return state.y;
}

void Relu::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  inputs[0].grad = pass.kernels().relu_backward(pass.stream, state.y, grad);
}

// Dropout is linear: forward and backward multiply by the same numbers.
Tensor Dropout::forward(const Pass& pass, const Tensor& x) {
  if (!pass.training || probability == 0.0) return x;
  RandomKey random = pass.random;
  random.operation = operation;
  return pass.kernels().dropout(pass.stream, x, probability, random);
}

void Dropout::input_gradient(const Pass& pass, const Tensor& grad,
                             std::span<InputGradient> inputs) {
  inputs[0].grad = forward(pass, grad);
}

}  // namespace troupe::primitives
