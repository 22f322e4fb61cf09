#include "ops/primitives/convolution2d.h"

#include <fmt/format.h>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {

Tensor Convolution2d::forward(const Pass& pass, const Tensor& x) {
  check_images(name, x, options.in_channels);
  if (x.dim(2) + 2 * options.padding_h < options.kernel_h ||
      x.dim(3) + 2 * options.padding_w < options.kernel_w)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: a kernel of {}x{} is larger than the image {} with padding {}x{}",
                            name, options.kernel_h, options.kernel_w, to_string(x.shape()),
                            options.padding_h, options.padding_w),
                "use larger images or more padding");
  use_weights(pass);
  state.x = x;
  return kernel->forward(pass.stream, x);
}

void Convolution2d::input_gradient(const Pass& pass, const Tensor& grad,
                                   std::span<InputGradient> inputs) {
  if (!inputs[0].wanted) return;
  use_weights(pass);
  inputs[0].grad = kernel->input_gradient(pass.stream, grad, state.x.shape(), state.x.layout());
}

void Convolution2d::weight_gradient(const Pass& pass, const Tensor& grad) {
  Tensor none;
  kernel->weight_gradient(pass.stream, state.x, grad, pass.weight_gradient(weight),
                          options.bias ? pass.weight_gradient(bias) : none);
}

void Convolution2d::use_weights(const Pass& pass) {
  kernel->use_weights(pass.stream, pass.weight(weight), options.bias ? pass.weight(bias) : Tensor(),
                      pass.weights_version);
}

}  // namespace troupe::primitives
