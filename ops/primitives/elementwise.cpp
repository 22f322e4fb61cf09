#include "ops/primitives/elementwise.h"

#include <fmt/format.h>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {

Tensor Relu::forward(const Pass& pass, const Tensor& x) {
  state.y = pass.kernels().relu(pass.stream, x);
  return state.y;
}

void Relu::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  inputs[0].grad = pass.kernels().relu_backward(pass.stream, state.y, grad);
}

Tensor Add::forward(const Pass& pass, const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape())
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {} and {}; the shapes must be equal", name, to_string(a.shape()),
                            to_string(b.shape())),
                "there is no broadcasting; give both tensors the same shape");
  state.b_layout = b.layout();
  return pass.kernels().add(pass.stream, a, in_layout(pass, b, a.layout()));
}

void Add::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  inputs[0].grad = grad;
  if (inputs[1].wanted) inputs[1].grad = in_layout(pass, grad, state.b_layout);
}

// Dropout is linear: forward and backward multiply by the same numbers.
Tensor Dropout::forward(const Pass& pass, const Tensor& x) {
  if (!pass.training || probability == 0.0f) return x;
  RandomKey random = pass.random;
  random.operation = operation;
  return pass.kernels().dropout(pass.stream, x, probability, random);
}

void Dropout::input_gradient(const Pass& pass, const Tensor& grad,
                             std::span<InputGradient> inputs) {
  inputs[0].grad = forward(pass, grad);
}

}  // namespace troupe::primitives
