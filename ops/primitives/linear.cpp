#include "ops/primitives/linear.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

// The kernels take rows: all axes but the last are one.
Tensor as_rows(const Tensor& tensor) {
  const std::int64_t features = tensor.dim(-1);
  return tensor.reshape(Shape{tensor.element_count() / features, features});
}

}  // namespace

Tensor Linear::forward(const Pass& pass, const Tensor& x) {
  if (x.rank() < 2 || x.dim(-1) != options.in_features)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}, the layer takes (N, ..., {})", name,
                            to_string(x.shape()), options.in_features),
                "check in_features against the layer before, and flatten images first");
  given = {x.shape(), x.layout()};
  const Tensor y = WeightedLayer::forward(pass, as_rows(in_layout(pass, x, Layout::row_major)));
  std::vector<std::int64_t> sizes(x.shape().dims().begin(), x.shape().dims().end());
  sizes.back() = options.out_features;
  return y.reshape(Shape(std::span<const std::int64_t>(sizes)));
}

void Linear::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  if (!inputs[0].wanted) return;
  WeightedLayer::input_gradient(pass, as_rows(grad), inputs);
  inputs[0].grad = in_layout(pass, inputs[0].grad.reshape(given.x_shape), given.x_layout);
}

void Linear::weight_gradient(const Pass& pass, const Tensor& grad) {
  WeightedLayer::weight_gradient(pass, as_rows(grad));
}

}  // namespace troupe::primitives
