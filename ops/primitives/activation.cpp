#include "ops/primitives/activation.h"

namespace troupe::primitives {

Tensor Activate::forward(const Pass& pass, const Tensor& x) {
  Tensor y = pass.kernels().activate(pass.stream, function, x);
  state.tensor = derives_from_output(function) ? y : x;
  return y;
}

void Activate::input_gradient(const Pass& pass, const Tensor& grad,
                              std::span<InputGradient> inputs) {
  inputs[0].grad = pass.kernels().activate_backward(pass.stream, function, state.tensor, grad);
}

Tensor Clamp::forward(const Pass& pass, const Tensor& x) {
  state.x = x;
  return pass.kernels().clamp(pass.stream, x, low, high);
}

void Clamp::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  inputs[0].grad = pass.kernels().clamp_backward(pass.stream, state.x, grad, low, high);
}

}  // namespace troupe::primitives
