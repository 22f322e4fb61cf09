#include "ops/primitives/reduction.h"

#include <fmt/format.h>

#include <array>

#include "ops/primitives/broadcasting.h"
#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

/// Which axes of the shape are summed.
std::array<bool, Shape::max_rank> summed_axes(const Shape& shape, const std::vector<int>& axes) {
  std::array<bool, Shape::max_rank> summed{};
  if (axes.empty()) summed.fill(true);
  for (const int axis : axes) {
    bool& mark = summed[static_cast<std::size_t>(checked_axis(Reduce::name, shape, axis))];
    if (mark)
      throw Error(
          ErrorCode::bad_shape,
          fmt::format("{}: axis {} of {} is given twice", Reduce::name, axis, to_string(shape)),
          "give each axis once");
    mark = true;
  }
  return summed;
}

}  // namespace

Tensor Reduce::forward(const Pass& pass, const Tensor& x) {
  const auto summed = summed_axes(x.shape(), axes);
  std::vector<std::int64_t> kept, left;
  std::int64_t count = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool sums = summed[static_cast<std::size_t>(axis)];
    if (sums) count *= x.shape()[axis];
    kept.push_back(sums ? 1 : x.shape()[axis]);
    if (keeps_axes || !sums) left.push_back(kept.back());
  }
  state.x_shape = x.shape();
  state.x_layout = x.layout();
  state.kept_shape = Shape(std::span<const std::int64_t>(kept));
  state.scale = mean ? 1.0 / static_cast<double>(count) : 1.0;
  const Tensor sums = pass.kernels().sum_to(pass.stream, x, {}, state.kept_shape, state.scale);
  return in_layout(pass, sums, Layout::row_major)
      .reshape(Shape(std::span<const std::int64_t>(left)));
}

void Reduce::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  const Tensor operand =
      as_operand(pass, grad.reshape(state.kept_shape), state.x_shape, state.x_layout);
  inputs[0].grad =
      pass.kernels().broadcast(pass.stream, operand, state.x_shape, state.x_layout, state.scale);
}

}  // namespace troupe::primitives
