#include "ops/primitives/softmax.h"

#include "ops/primitives/checks.h"

namespace troupe::primitives {

Tensor Softmax::forward(const Pass& pass, const Tensor& x) {
  const int along = checked_axis(name, x.shape(), axis);
  state.x_layout = x.layout();
  state.y =
      pass.kernels().softmax(pass.stream, in_layout(pass, x, Layout::row_major), along, logarithm);
  return state.y;
}

void Softmax::input_gradient(const Pass& pass, const Tensor& grad,
                             std::span<InputGradient> inputs) {
  const Tensor x_grad = pass.kernels().softmax_backward(
      pass.stream, state.y, grad, checked_axis(name, grad.shape(), axis), logarithm);
  inputs[0].grad = in_layout(pass, x_grad, state.x_layout);
}

}  // namespace troupe::primitives
