// Other shapes and orders of known tensors.

#include <fmt/format.h>

#include <algorithm>

#include "ops/graph/onnx_evaluate.h"
#include "ops/graph/onnx_shape_rules.h"

namespace troupe::graph::onnx {
namespace {

using Inputs = std::span<const Numbers* const>;

Numbers with_shape(const NodeView& node, const Numbers& from, const Sizes& sizes, Budget& budget) {
  const std::vector<std::int64_t> dims = fixed_dims(node, sizes);
  budget.take(node, from.count());
  Numbers result = from;
  result.shape = Shape(dims);
  return result;
}

/// The strides of a row-major shape, in elements.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> strides(dims.size(), 1);
  for (std::size_t i = dims.size(); i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  return strides;
}

/// The indices of elements at start + sum over axes of position * stride.
std::vector<std::size_t> strided(const NodeView& node, const std::vector<std::int64_t>& dims,
                                 const std::vector<std::int64_t>& strides, std::int64_t start,
                                 const Budget& budget) {
  const std::int64_t count = budget.count(node, dims);
  std::vector<std::size_t> indices(static_cast<std::size_t>(count));
  const std::vector<std::int64_t> own = strides_of(dims);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = start;
    for (std::size_t axis = 0; axis < dims.size(); ++axis)
      at += i / own[axis] % dims[axis] * strides[axis];
    indices[static_cast<std::size_t>(i)] = static_cast<std::size_t>(at);
  }
  return indices;
}

std::vector<std::int64_t> dims_of(const Numbers& numbers) {
  return {numbers.shape.dims().begin(), numbers.shape.dims().end()};
}

Numbers transposed(const NodeView& node, const Numbers& from, Budget& budget) {
  const std::vector<std::int64_t> dims = dims_of(from), strides = strides_of(dims);
  std::vector<std::int64_t> new_dims, new_strides;
  for (const int axis : permutation_of(node, from.shape.rank())) {
    new_dims.push_back(dims[static_cast<std::size_t>(axis)]);
    new_strides.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  return gather(node, from, new_dims, strided(node, new_dims, new_strides, 0, budget), budget);
}

Numbers sliced(const NodeView& node, Inputs inputs, Budget& budget) {
  const Numbers& from = needed(node, inputs, 0);
  std::vector<std::int64_t> dims = dims_of(from), strides = strides_of(dims);
  std::int64_t start = 0;
  for (const Range& range : slices_of(node, sizes_of(from.shape), inputs)) {
    const auto axis = static_cast<std::size_t>(range.axis);
    if (range.count == 0) node.refuse("its result is empty");
    start += range.start * strides[axis];
    dims[axis] = range.count;
    if (range.count > 1) strides[axis] *= range.step;
  }
  return gather(node, from, dims, strided(node, dims, strides, start, budget), budget);
}

/// ONNX's Gather: the axis is replaced by the axes of the indices.
Numbers picked(const NodeView& node, const Numbers& from, const Numbers& which, Budget& budget) {
  const int axis = axis_of(node, node.integer("axis", 0), from.shape.rank());
  const std::int64_t size = from.shape[axis];
  std::int64_t inner = 1;
  for (int i = axis + 1; i < from.shape.rank(); ++i) inner *= from.shape[i];
  std::vector<std::int64_t> dims(from.shape.dims().begin(), from.shape.dims().begin() + axis);
  std::int64_t outer = 1;
  for (const std::int64_t dim : dims) outer *= dim;
  dims.insert(dims.end(), which.shape.dims().begin(), which.shape.dims().end());
  dims.insert(dims.end(), from.shape.dims().begin() + axis + 1, from.shape.dims().end());
  std::vector<std::int64_t> rows = fixed_integers_of(node, which);
  for (std::int64_t& row : rows) {
    if (row < -size || row >= size)
      node.damaged(fmt::format("index {} of an axis of size {}", row, size));
    if (row < 0) row += size;
  }
  std::vector<std::size_t> indices;
  indices.reserve(static_cast<std::size_t>(budget.count(node, dims)));
  for (std::int64_t o = 0; o < outer; ++o)
    for (const std::int64_t row : rows)
      for (std::int64_t i = 0; i < inner; ++i)
        indices.push_back(static_cast<std::size_t>((o * size + row) * inner + i));
  return gather(node, from, dims, indices, budget);
}

/// The elements of all inputs, one after the other.
Numbers concatenated(const NodeView& node, Inputs inputs, Budget& budget) {
  const Numbers& first = needed(node, inputs, 0);
  const int axis = axis_of(node, node.integer("axis", 0), first.shape.rank());
  std::vector<Sizes> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    parts.push_back(sizes_of(needed(node, inputs, i).shape));
    if (inputs[i]->is_real() != first.is_real()) node.damaged("its inputs are of different types");
  }
  const std::vector<std::int64_t> dims =
      fixed_dims(node, concatenated(node, std::span<const Sizes>(parts), axis));
  Numbers result = budget.make(node, first.dtype, dims);
  std::int64_t outer = 1;
  for (int i = 0; i < axis; ++i) outer *= dims[static_cast<std::size_t>(i)];
  std::ptrdiff_t at = 0;
  for (std::int64_t o = 0; o < outer; ++o)
    for (const Numbers* part : inputs) {
      const std::ptrdiff_t length = part->count() / std::max<std::int64_t>(outer, 1);
      const auto copy = [&](const auto& from, auto& into) {
        std::copy_n(from.begin() + o * length, length, into.begin() + at);
      };
      if (first.is_real()) copy(part->reals, result.reals);
      if (!first.is_real()) copy(part->integers, result.integers);
      at += length;
    }
  return result;
}

Numbers triangular(const NodeView& node, Inputs inputs, Budget& budget) {
  const Numbers& from = needed(node, inputs, 0);
  const bool upper = node.integer("upper", 1) != 0;
  const std::int64_t shift =
      inputs.size() > 1 && inputs[1] ? fixed_integer_of(node, *inputs[1]) : 0;
  if (from.shape.rank() < 2) node.damaged("its input has fewer than two axes");
  const std::int64_t rows = from.shape.dim(-2), columns = from.shape.dim(-1);
  if (std::abs(static_cast<double>(shift)) > 1e12) node.damaged("its diagonal is not a number");
  budget.take(node, from.count());
  Numbers result = from;
  for (std::int64_t i = 0; i < from.count(); ++i) {
    const std::int64_t distance = i % columns - i / columns % rows - shift;
    if (upper ? distance >= 0 : distance <= 0) continue;
    const auto at = static_cast<std::size_t>(i);
    if (result.is_real()) result.reals[at] = 0;
    if (!result.is_real()) result.integers[at] = {};
  }
  return result;
}

Numbers expanded(const NodeView& node, Inputs inputs, Budget& budget) {
  const Numbers& from = needed(node, inputs, 0);
  const auto dims = fixed_dims(node, expanded(node, sizes_of(from.shape), needed(node, inputs, 1)));
  return gather(node, from, dims, broadcast_indices(node, dims, from.shape, budget), budget);
}

}  // namespace

std::optional<Numbers> evaluate_movement(const NodeView& node, Inputs inputs, Budget& budget) {
  const std::string& operation = node.operation();
  if (operation == "Concat") return concatenated(node, inputs, budget);
  if (inputs.empty() || inputs[0] == nullptr) return std::nullopt;
  const Numbers& from = *inputs[0];
  const Sizes sizes = sizes_of(from.shape);
  if (operation == "Reshape")
    return with_shape(node, from, reshaped(node, sizes, needed(node, inputs, 1)), budget);
  if (operation == "Flatten") return with_shape(node, from, flattened(node, sizes), budget);
  if (operation == "Squeeze")
    return with_shape(node, from, squeezed(node, sizes, inputs.size() > 1 ? inputs[1] : nullptr),
                      budget);
  if (operation == "Unsqueeze")
    return with_shape(node, from, unsqueezed(node, sizes, needed(node, inputs, 1)), budget);
  if (operation == "Transpose") return transposed(node, from, budget);
  if (operation == "Slice") return sliced(node, inputs, budget);
  if (operation == "Gather") return picked(node, from, needed(node, inputs, 1), budget);
  if (operation == "Expand") return expanded(node, inputs, budget);
  if (operation == "Trilu") return triangular(node, inputs, budget);
  return std::nullopt;
}

}  // namespace troupe::graph::onnx
