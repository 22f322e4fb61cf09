#include "ops/primitives/reshape.h"

#include <fmt/format.h>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {

Tensor Reshape::forward(const Pass& pass, const Tensor& x) {
  state.x_shape = x.shape();
  state.x_layout = x.layout();
  return in_layout(pass, x, Layout::row_major).reshape(shape);
}

void Reshape::input_gradient(const Pass& pass, const Tensor& grad,
                             std::span<InputGradient> inputs) {
  inputs[0].grad = in_layout(pass, grad.reshape(state.x_shape), state.x_layout);
}

Tensor Flatten::forward(const Pass& pass, const Tensor& x) {
  if (x.rank() < 1)
    throw Error(ErrorCode::bad_shape, fmt::format("{}: a scalar has no samples", name));
  const std::int64_t features = x.dim(0) == 0 ? 0 : x.element_count() / x.dim(0);
  reshape.shape = Shape{x.dim(0), features};
  return reshape.forward(pass, x);
}

}  // namespace troupe::primitives
