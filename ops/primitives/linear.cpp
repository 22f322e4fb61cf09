#include "ops/primitives/linear.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace troupe::primitives {

Tensor Linear::forward(const Pass& pass, const Tensor& x) {
  if (x.rank() != 2 || x.dim(1) != options.in_features)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}, the layer takes (N, {})", name,
                            to_string(x.shape()), options.in_features),
                "check in_features against the layer before, and flatten images first");
  use_weights(pass);
  state.x = x;
  return kernel->forward(pass.stream, x);
}

void Linear::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  if (!inputs[0].wanted) return;
  use_weights(pass);
  inputs[0].grad = kernel->input_gradient(pass.stream, grad);
}

void Linear::weight_gradient(const Pass& pass, const Tensor& grad) {
  Tensor none;
  kernel->weight_gradient(pass.stream, state.x, grad, pass.weight_gradient(weight),
                          options.bias ? pass.weight_gradient(bias) : none);
}

void Linear::use_weights(const Pass& pass) {
  kernel->use_weights(pass.stream, pass.weight(weight), options.bias ? pass.weight(bias) : Tensor(),
                      pass.weights_version);
}

}  // namespace troupe::primitives
