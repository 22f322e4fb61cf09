#include "ops/primitives/pooling.h"

#include <fmt/format.h>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {

Tensor MaxPool2d::forward(const Pass& pass, const Tensor& x) {
  check_window(name, x, options);
  state.x = x;
  return pass.kernels().max_pool(pass.stream, x, options);
}

void MaxPool2d::input_gradient(const Pass& pass, const Tensor& grad,
                               std::span<InputGradient> inputs) {
  inputs[0].grad = pass.kernels().max_pool_backward(pass.stream, grad, state.x, options);
}

Tensor AveragePool2d::forward(const Pass& pass, const Tensor& x) {
  check_window(name, x, options);
  state.x_shape = x.shape();
  return pass.kernels().average_pool(pass.stream, x, options);
}

void AveragePool2d::input_gradient(const Pass& pass, const Tensor& grad,
                                   std::span<InputGradient> inputs) {
  inputs[0].grad = pass.kernels().average_pool_backward(pass.stream, grad, state.x_shape, options);
}

Tensor AdaptiveAveragePool2d::forward(const Pass& pass, const Tensor& x) {
  check_images(name, x);
  if (out_h < 1 || out_w < 1 || x.dim(2) < 1 || x.dim(3) < 1)
    throw Error(ErrorCode::bad_shape, fmt::format("{}: {} cannot be split into {}x{} parts", name,
                                                  to_string(x.shape()), out_h, out_w));
  state.x_shape = x.shape();
  return pass.kernels().adaptive_average_pool(pass.stream, x, out_h, out_w);
}

void AdaptiveAveragePool2d::input_gradient(const Pass& pass, const Tensor& grad,
                                           std::span<InputGradient> inputs) {
  inputs[0].grad = pass.kernels().adaptive_average_pool_backward(pass.stream, grad, state.x_shape);
}

}  // namespace troupe::primitives
