#include "ops/graph/onnx_shape_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/graph/onnx_evaluate.h"

namespace troupe::graph::onnx {
namespace {

/// Whether each axis is named, of `rank` axes.
std::vector<bool> named_axes(const NodeView& node, const Numbers& axes, int rank) {
  std::vector<bool> named(static_cast<std::size_t>(rank), false);
  for (const std::int64_t axis : fixed_integers_of(node, axes)) {
    auto place = named[static_cast<std::size_t>(axis_of(node, axis, rank))];
    if (place) node.damaged(fmt::format("it names axis {} twice", axis));
    place = true;
  }
  return named;
}

void check_rank(const NodeView& node, std::size_t rank) {
  if (rank > Shape::max_rank)
    node.refuse(
        fmt::format("its result has {} axes; at most {} are possible", rank, Shape::max_rank),
        "use fewer axes");
}

}  // namespace

std::vector<std::int64_t> fixed_dims(const NodeView& node, const Sizes& sizes) {
  std::vector<std::int64_t> dims;
  for (const Size& size : sizes) {
    if (!is_fixed(size))
      node.refuse(fmt::format("it needs the shape {} as numbers", to_string(sizes)));
    dims.push_back(size.fixed);
  }
  return dims;
}

Sizes reshaped(const NodeView& node, const Sizes& from, const Numbers& shape) {
  Sizes wanted = sizes_of(node, shape);
  check_rank(node, wanted.size());
  const bool zero_keeps = node.integer("allowzero", 0) == 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (zero_keeps && wanted[i] == Size{}) {
      if (i >= from.size()) node.damaged("it keeps an axis that its input lacks");
      wanted[i] = from[i];
    }
  return node.checked([&] { return resolved(wanted, from); });
}

Sizes flattened(const NodeView& node, const Sizes& from) {
  const std::int64_t given = node.integer("axis", 1);
  const auto rank = static_cast<std::int64_t>(from.size());
  const std::int64_t axis = given < 0 ? given + rank : given;
  if (axis < 0 || axis > rank) node.damaged(fmt::format("axis {} of {} axes", given, rank));
  return node.checked([&] {
    const auto sizes = std::span(from);
    const auto count = static_cast<std::size_t>(axis);
    return Sizes{product(sizes.first(count)), product(sizes.subspan(count))};
  });
}

Sizes squeezed(const NodeView& node, const Sizes& from, const Numbers* axes) {
  const int rank = static_cast<int>(from.size());
  const std::vector<bool> named =
      axes ? named_axes(node, *axes, rank) : std::vector<bool>(from.size(), false);
  Sizes result;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const bool removed = axes ? named[i] : from[i] == Size{1, 0};
    if (removed && from[i] != Size{1, 0})
      node.damaged(fmt::format("it removes axis {} of {}", i, to_string(from)));
    if (!removed) result.push_back(from[i]);
  }
  return result;
}

Sizes unsqueezed(const NodeView& node, const Sizes& from, const Numbers& axes) {
  check_rank(node, from.size() + static_cast<std::size_t>(axes.count()));
  const int rank = static_cast<int>(from.size()) + static_cast<int>(axes.count());
  const std::vector<bool> named = named_axes(node, axes, rank);
  Sizes result;
  std::size_t next = 0;
  for (const bool is_new : named) result.push_back(is_new ? Size{1, 0} : from[next++]);
  return result;
}

Sizes expanded(const NodeView& node, const Sizes& from, const Numbers& shape) {
  const Sizes wanted = sizes_of(node, shape);
  check_rank(node, wanted.size());
  const auto result = broadcast(from, wanted);
  if (!result || !can_exist(*result))
    node.damaged(fmt::format("{} cannot be expanded to {}", to_string(from), to_string(wanted)));
  return *result;
}

Sizes concatenated(const NodeView& node, std::span<const Sizes> parts, int axis) {
  Sizes result = parts.front();
  const auto place = static_cast<std::size_t>(axis);
  for (const Sizes& part : parts.subspan(1)) {
    if (part.size() != result.size()) node.damaged("its inputs have different numbers of axes");
    const auto sum = add(result[place], part[place]);
    Sizes others = part;
    others[place] = result[place];
    if (!sum || others != result)
      node.damaged(fmt::format("{} and {} cannot be joined along axis {}", to_string(result),
                               to_string(part), axis));
    result[place] = *sum;
  }
  return result;
}

std::vector<int> permutation_of(const NodeView& node, int rank) {
  std::vector<int> axes(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) axes[static_cast<std::size_t>(i)] = rank - 1 - i;
  if (const auto given = node.integers("perm")) {
    std::vector<std::int64_t> sorted = *given;
    std::ranges::sort(sorted);
    for (std::size_t i = 0; i < sorted.size(); ++i)
      if (sorted[i] != static_cast<std::int64_t>(i)) node.damaged("its order of axes is none");
    if (given->size() != axes.size())
      node.damaged(fmt::format("it orders {} axes of {}", given->size(), rank));
    std::ranges::transform(*given, axes.begin(), [](auto axis) { return static_cast<int>(axis); });
  }
  return axes;
}

std::vector<Range> slices_of(const NodeView& node, const Sizes& from,
                             std::span<const Numbers* const> inputs) {
  const auto starts = fixed_integers_of(node, needed(node, inputs, 1));
  const Sizes ends = sizes_of(node, needed(node, inputs, 2));
  const auto optional = [&](std::size_t index, auto otherwise) {
    std::vector<std::int64_t> result;
    if (inputs.size() > index && inputs[index]) return fixed_integers_of(node, *inputs[index]);
    for (std::size_t i = 0; i < starts.size(); ++i)
      result.push_back(otherwise(static_cast<std::int64_t>(i)));
    return result;
  };
  const auto axes = optional(3, [](std::int64_t i) { return i; });
  const auto steps = optional(4, [](std::int64_t) { return std::int64_t{1}; });
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    node.damaged("its bounds are of different numbers of axes");
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const int axis = axis_of(node, axes[i], static_cast<int>(from.size()));
    if (std::ranges::count(ranges, axis, &Range::axis) > 0) node.damaged("it slices an axis twice");
    const Size& size = from[static_cast<std::size_t>(axis)];
    const bool whole =
        starts[i] == 0 && steps[i] == 1 &&
        (ends[i] == size || ends[i] == fixed(std::numeric_limits<std::int64_t>::max()));
    if (whole) continue;
    if (!is_fixed(size) || !is_fixed(ends[i]))
      node.refuse(fmt::format("it slices axis {} of {}", axis, to_string(from)),
                  "a model may not select samples of its batch");
    ranges.push_back(slice_range(node, axis, size.fixed, starts[i], ends[i].fixed, steps[i]));
  }
  return ranges;
}

}  // namespace troupe::graph::onnx
