#include "ops/primitives/movement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "ops/on_device.h"
#include "ops/primitives/broadcasting.h"
#include "ops/primitives/checks.h"
#include "ops/primitives/element_space.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

/// The axis counted from the front; -1 if there is none.
int front_axis(int axis, int rank) {
  const int front = axis < 0 ? axis + rank : axis;
  return front < rank ? std::max(front, -1) : -1;
}

/// The axes counted from the front, if each of the shape is named once.
std::vector<int> permutation_of(const std::vector<int>& axes, const Shape& shape) {
  std::vector<int> result, sorted;
  for (const int axis : axes) result.push_back(front_axis(axis, shape.rank()));
  sorted = result;
  std::ranges::sort(sorted);
  bool complete = static_cast<int>(axes.size()) == shape.rank();
  for (std::size_t i = 0; complete && i < sorted.size(); ++i)
    complete = sorted[i] == static_cast<int>(i);
  if (complete) return result;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: the axes [{}] of {}", Permute::name, fmt::join(axes, ", "),
                          to_string(shape)),
              "name each axis of the input once");
}

// Blocks of channels are two axes of memory, so they cannot be permuted as one.
Tensor in_strided_layout(const Pass& pass, const Tensor& x) {
  return in_layout(pass, x, strided(x.layout()));
}

/// The layout in which all inputs can be concatenated.
Layout common_layout(std::span<const Tensor> inputs) {
  const Layout first = inputs.front().layout();
  const auto has_whole_blocks = [](const Tensor& input) { return input.dim(1) % 16 == 0; };
  if (first == Layout::nchw16c && !std::ranges::all_of(inputs, has_whole_blocks))
    return Layout::nhwc;
  return first;
}

/// Whether two shapes are equal except along an axis.
bool equal_beside(int axis, const Shape& a, const Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (int i = 0; i < a.rank(); ++i)
    if (i != axis && a[i] != b[i]) return false;
  return true;
}

}  // namespace

Tensor Permute::forward(const Pass& pass, const Tensor& given) {
  const std::vector<int> order = permutation_of(axes, given.shape());
  state = {given.shape(), given.layout()};
  const Tensor x = in_strided_layout(pass, given);
  const ElementSpace space = ElementSpace::of(x.shape(), x.layout());
  ElementPlaces places;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < order.size(); ++i) {
    places.strides[i] = space.places.strides[static_cast<std::size_t>(order[i])];
    sizes.push_back(x.shape()[order[i]]);
  }
  return gather(pass, x, places, Shape(std::span<const std::int64_t>(sizes)));
}

void Permute::input_gradient(const Pass& pass, const Tensor& grad,
                             std::span<InputGradient> inputs) {
  const std::vector<int> order = permutation_of(axes, state.x_shape);
  const ElementSpace space = ElementSpace::of(state.x_shape, strided(state.x_layout));
  ElementPlaces places;
  for (std::size_t i = 0; i < order.size(); ++i)
    places.strides[i] = space.places.strides[static_cast<std::size_t>(order[i])];
  Tensor x_grad =
      Tensor::empty(state.x_shape, grad.dtype(), pass.stream.device, strided(state.x_layout));
  pass.kernels().copy_elements(pass.stream, grad.shape(), grad,
                               ElementSpace::of(grad.shape(), Layout::row_major).places, x_grad,
                               places);
  inputs[0].grad = in_layout(pass, x_grad, state.x_layout);
}

Tensor Slice::forward(const Pass& pass, const Tensor& x) {
  const int front = front_axis(axis, x.rank());
  if (front < 0 || start < 0 || count < 0 || count > x.dim(front) || start > x.dim(front) - count)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {} elements from {} on along axis {} of {}", name, count, start,
                            axis, to_string(x.shape())),
                "the range must lie within an axis of the input");
  state = {x.shape(), x.layout()};
  if (count == x.dim(front)) return x;
  const bool whole_blocks = front != 1 || (start % 16 == 0 && count % 16 == 0);
  const Tensor from = whole_blocks ? x : in_strided_layout(pass, x);
  return slice(pass, from, front, start, count);
}

void Slice::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  if (grad.shape() == state.x_shape) {
    inputs[0].grad = grad;
    return;
  }
  const int front = front_axis(axis, state.x_shape.rank());
  Tensor& sum = inputs[0].sum;
  if (front == 0 && sum.defined() && sum.layout() == grad.layout() && sum.dtype() == grad.dtype()) {
    Tensor part = sum.narrow(start, count);
    pass.kernels().accumulate(pass.stream, part, grad);
    inputs[0].added = true;
    return;
  }
  Tensor x_grad = zeros(pass.stream, state.x_shape, grad.dtype(), grad.layout());
  write_slice(pass, grad, front, start, x_grad);
  inputs[0].grad = in_layout(pass, x_grad, state.x_layout);
}

Tensor Expand::forward(const Pass& pass, const Tensor& given) {
  const int added = shape.rank() - given.rank();
  bool fits = added >= 0;
  for (int axis = 0; fits && axis < given.rank(); ++axis)
    fits = given.dim(axis) == shape[axis + added] || given.dim(axis) == 1;
  if (!fits)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {} to {}", name, to_string(given.shape()), to_string(shape)),
                "only axes of size 1 and new outer axes can be expanded");
  state = {given.shape(), given.layout()};
  if (given.shape() == shape) return given;
  const Tensor x = in_strided_layout(pass, given);
  const ElementSpace space = ElementSpace::of(x.shape(), x.layout());
  ElementPlaces places;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const int expanded = axis + added;
    if (x.dim(axis) != 1)
      places.strides[static_cast<std::size_t>(expanded)] =
          space.places.strides[static_cast<std::size_t>(axis)];
  }
  return gather(pass, x, places, shape);
}

void Expand::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  inputs[0].grad = operand_gradient(pass, grad, {}, state.x_shape, state.x_layout);
}

Tensor Concatenate::forward(const Pass& pass, std::span<const Tensor> inputs) {
  if (inputs.empty())
    throw Error(ErrorCode::bad_shape, fmt::format("{}: there are no inputs", name));
  const Shape& first = inputs.front().shape();
  const int front = front_axis(axis, first.rank());
  std::vector<std::int64_t> sizes(first.dims().begin(), first.dims().end());
  std::int64_t total = 0;
  for (const Tensor& input : inputs) {
    if (front < 0 || !equal_beside(front, first, input.shape()))
      throw Error(ErrorCode::bad_shape,
                  fmt::format("{}: {} and {} along axis {}", name, to_string(first),
                              to_string(input.shape()), axis),
                  "the inputs must have this axis, and all their other axes be equal");
    total += input.dim(front);
    state.shapes.push_back(input.shape());
    state.layouts.push_back(input.layout());
  }
  sizes[static_cast<std::size_t>(front)] = total;
  const Layout layout = common_layout(inputs);
  const bool alike = std::ranges::all_of(
      inputs, [&](const Tensor& input) { return input.dtype() == inputs.front().dtype(); });
  const DType dtype = alike ? inputs.front().dtype() : pass.dtype;
  Tensor y =
      Tensor::empty(Shape(std::span<const std::int64_t>(sizes)), dtype, pass.stream.device, layout);
  std::int64_t start = 0;
  for (const Tensor& input : inputs) {
    write_slice(pass, in_layout(pass, on_device(pass.stream, input, dtype), layout), front, start,
                y);
    start += input.dim(front);
  }
  return y;
}

void Concatenate::input_gradient(const Pass& pass, const Tensor& grad,
                                 std::span<InputGradient> inputs) {
  const int front = front_axis(axis, grad.rank());
  std::int64_t start = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::int64_t count = state.shapes[i][front];
    if (inputs[i].wanted)
      inputs[i].grad = in_layout(pass, slice(pass, grad, front, start, count), state.layouts[i]);
    start += count;
  }
}

}  // namespace troupe::primitives
