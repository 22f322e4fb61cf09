#include "ops/graph/onnx_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "runtime/tensor/cast.h"

namespace troupe::graph::onnx {
namespace {

std::vector<Size> integers_of(const Tensor& tensor) {
  const Tensor wide = widest(tensor);
  std::vector<Size> result;
  result.reserve(static_cast<std::size_t>(wide.element_count()));
  for (const std::int64_t element : wide.elements<std::int64_t>()) result.push_back(fixed(element));
  return result;
}

}  // namespace

void Budget::check(const NodeView& node, std::int64_t elements) const {
  if (elements < 0 || elements > left_)
    node.refuse(fmt::format("its result has more than {} elements, the most that are left for the "
                            "constants of a file",
                            left_),
                "make large constants parameters, and freeze them");
}

void Budget::take(const NodeView& node, std::int64_t elements) {
  check(node, elements);
  left_ -= elements;
}

std::int64_t Budget::count(const NodeView& node, const std::vector<std::int64_t>& dims) const {
  if (dims.size() > Shape::max_rank)
    node.refuse(fmt::format("its result has {} axes", dims.size()));
  std::int64_t count = 1;
  for (const std::int64_t dim : dims) {
    if (dim < 0) node.damaged(fmt::format("an axis of its result has size {}", dim));
    if (__builtin_mul_overflow(count, dim, &count)) check(node, -1);
  }
  check(node, count);
  return count;
}

Numbers Budget::make(const NodeView& node, DType dtype, const std::vector<std::int64_t>& dims) {
  const auto size = static_cast<std::size_t>(count(node, dims));
  take(node, static_cast<std::int64_t>(size));
  Numbers numbers{.dtype = dtype, .shape = Shape(dims)};
  if (numbers.is_real()) numbers.reals.resize(size);
  if (!numbers.is_real()) numbers.integers.resize(size);
  return numbers;
}

Numbers numbers_of(const NodeView& node, const StoredTensor& stored, Budget& budget) {
  budget.take(node, stored.shape.element_count());
  const Tensor tensor = read_tensor(stored);
  Numbers numbers{.dtype = stored.dtype, .shape = stored.shape};
  if (!numbers.is_real()) {
    numbers.integers = integers_of(tensor);
    return numbers;
  }
  const Tensor wide = cast(tensor, DType::f64);
  numbers.reals.assign(wide.elements<double>().begin(), wide.elements<double>().end());
  if (stored.dtype == DType::f32 && stored.shape.element_count() == 1)
    numbers.reals[0] = shortest_decimal(static_cast<float>(numbers.reals[0]));
  return numbers;
}

std::optional<Tensor> tensor_of(const Numbers& numbers) {
  if (numbers.is_real()) return Tensor::from(numbers.shape, std::span(numbers.reals));
  std::vector<std::int64_t> fixed;
  for (const Size& size : numbers.integers) {
    if (!is_fixed(size)) return std::nullopt;
    fixed.push_back(size.fixed);
  }
  return Tensor::from(numbers.shape, std::span<const std::int64_t>(fixed));
}

Sizes sizes_of(const NodeView& node, const Numbers& numbers) {
  if (numbers.is_real()) node.damaged("it takes floating-point numbers as sizes");
  return numbers.integers;
}

std::vector<std::int64_t> fixed_integers_of(const NodeView& node, const Numbers& numbers) {
  std::vector<std::int64_t> fixed;
  for (const Size& size : sizes_of(node, numbers)) {
    if (!is_fixed(size)) node.refuse("it needs the number of samples as a number");
    fixed.push_back(size.fixed);
  }
  return fixed;
}

std::int64_t fixed_integer_of(const NodeView& node, const Numbers& numbers) {
  const auto fixed = fixed_integers_of(node, numbers);
  if (fixed.size() != 1) node.damaged(fmt::format("it takes {} numbers for one", fixed.size()));
  return fixed.front();
}

double real_of(const NodeView& node, const Numbers& numbers) {
  if (numbers.is_real() && numbers.reals.size() == 1) return numbers.reals.front();
  return static_cast<double>(fixed_integer_of(node, numbers));
}

int axis_of(const NodeView& node, std::int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    node.damaged(fmt::format("axis {} of a tensor with {} axes", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<std::int64_t> broadcast_dims(const NodeView& node, const Shape& a, const Shape& b) {
  const auto sizes = broadcast(sizes_of(a), sizes_of(b));
  if (!sizes)
    node.damaged(
        fmt::format("{} and {} cannot be broadcast", troupe::to_string(a), troupe::to_string(b)));
  std::vector<std::int64_t> dims;
  for (const Size& size : *sizes) dims.push_back(size.fixed);
  return dims;
}

std::vector<std::size_t> broadcast_indices(const NodeView& node,
                                           const std::vector<std::int64_t>& dims, const Shape& from,
                                           const Budget& budget) {
  const std::int64_t count = budget.count(node, dims);
  std::vector<std::size_t> indices(static_cast<std::size_t>(count), 0);
  const int offset = static_cast<int>(dims.size()) - from.rank();
  std::size_t stride = 1;
  std::int64_t inner = 1;  // elements of the result in one step of this axis
  for (int axis = static_cast<int>(dims.size()) - 1; axis >= 0; --axis) {
    const std::int64_t dim = dims[static_cast<std::size_t>(axis)];
    const std::int64_t own = axis < offset ? 1 : from[axis - offset];
    if (own > 1)
      for (std::int64_t i = 0; i < count; ++i)
        indices[static_cast<std::size_t>(i)] += static_cast<std::size_t>(i / inner % dim) * stride;
    stride *= static_cast<std::size_t>(own);
    inner *= dim;
  }
  return indices;
}

Numbers gather(const NodeView& node, const Numbers& from, const std::vector<std::int64_t>& dims,
               const std::vector<std::size_t>& indices, Budget& budget) {
  Numbers result = budget.make(node, from.dtype, dims);
  for (std::size_t i = 0; i < indices.size(); ++i)
    if (from.is_real())
      result.reals[i] = from.reals[indices[i]];
    else
      result.integers[i] = from.integers[indices[i]];
  return result;
}

Range slice_range(const NodeView& node, int axis, std::int64_t size, std::int64_t start,
                  std::int64_t end, std::int64_t step) {
  if (step <= 0) node.refuse(fmt::format("it slices with step {}", step));
  const auto within = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
  };
  Range range{.axis = axis, .start = within(start), .step = step};
  const std::int64_t length = within(end) - range.start;
  range.count = length > 0 ? (length - 1) / step + 1 : 0;
  return range;
}

}  // namespace troupe::graph::onnx
