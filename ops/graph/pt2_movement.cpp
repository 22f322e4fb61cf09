#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"

namespace troupe::graph {
namespace {

ValueId self(const Pt2Node& node) { return node.value("self"); }

std::size_t axis(const Pt2Node& node, std::string_view name, std::int64_t otherwise,
                 std::size_t rank) {
  return static_cast<std::size_t>(axis_of(node.integer(name, otherwise), rank));
}

/// The value itself where the shape is the same.
ValueId reshaped(const Pt2Node& node, ValueId x, const Sizes& shape) {
  const Sizes sizes = resolved(shape, node.shape(x));
  return sizes == node.shape(x) ? x : node.add(Reshape{sizes}, {x});
}

void give_reshaped(const Pt2Node& node, const Sizes& shape) {
  node.give_view(reshaped(node, self(node), shape), "self");
}

void view(const Pt2Node& node) { give_reshaped(node, node.sizes("size")); }
void reshape(const Pt2Node& node) { give_reshaped(node, node.sizes("shape")); }

void flatten(const Pt2Node& node) {
  const Sizes& from = node.shape(self(node));
  if (from.empty()) return give_reshaped(node, {fixed(1)});
  const std::size_t first = axis(node, "start_dim", 0, from.size());
  const std::size_t last = axis(node, "end_dim", -1, from.size());
  if (first > last) node.json().fail("its axes are in the wrong order");
  Sizes to(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(first));
  to.push_back(product(std::span(from).subspan(first, last - first + 1)));
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(last) + 1, from.end());
  give_reshaped(node, to);
}

void unflatten(const Pt2Node& node) {
  const Sizes from = node.shape(self(node));
  const std::size_t at = axis(node, "dim", 0, from.size());
  const Sizes parts = resolved(node.sizes("sizes"), {from[at]});
  Sizes to(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(at));
  to.insert(to.end(), parts.begin(), parts.end());
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(at) + 1, from.end());
  give_reshaped(node, to);
}

void unsqueeze(const Pt2Node& node) {
  Sizes shape = node.shape(self(node));
  const std::size_t at = axis(node, "dim", 0, shape.size() + 1);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), fixed(1));
  give_reshaped(node, shape);
}

/// Without the axes of size 1 among "dim", or among all.
void squeeze(const Pt2Node& node) {
  const Sizes& from = node.shape(self(node));
  std::vector<bool> leaves(from.size(), !node.has("dim"));
  for (const std::int64_t dim : node.integers("dim", {}))
    leaves[static_cast<std::size_t>(axis_of(dim, from.size()))] = true;
  Sizes to;
  for (std::size_t i = 0; i < from.size(); ++i)
    if (!leaves[i] || from[i] != fixed(1)) to.push_back(from[i]);
  give_reshaped(node, to);
}

void give_permuted(const Pt2Node& node, std::vector<int> axes) {
  node.give_view(node.add(Permute{std::move(axes)}, {self(node)}), "self");
}

void exchange(const Pt2Node& node, std::int64_t one, std::int64_t other) {
  const std::size_t rank = node.shape(self(node)).size();
  std::vector<int> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  std::swap(axes[static_cast<std::size_t>(axis_of(one, rank))],
            axes[static_cast<std::size_t>(axis_of(other, rank))]);
  give_permuted(node, std::move(axes));
}

void transpose(const Pt2Node& node) { exchange(node, node.integer("dim0"), node.integer("dim1")); }
void swap_axes(const Pt2Node& node) {
  exchange(node, node.integer("axis0"), node.integer("axis1"));
}
void last_axes(const Pt2Node& node) { exchange(node, -2, -1); }
void matrix_transpose(const Pt2Node& node) {
  const std::size_t rank = node.shape(self(node)).size();
  if (rank < 2) return node.give_view(self(node), "self");
  exchange(node, 0, 1);
}

void permute(const Pt2Node& node) {
  std::vector<int> axes;
  for (const std::int64_t dim : node.integers("dims", {}))
    axes.push_back(axis_of(dim, node.shape(self(node)).size()));
  give_permuted(node, std::move(axes));
}

/// Elements [start, start + count) of an axis; the value itself if these are all.
ValueId sliced(const Pt2Node& node, ValueId x, std::size_t at, std::int64_t start,
               std::int64_t count) {
  if (start == 0 && fixed(count) == node.shape(x)[at]) return x;
  if (!is_fixed(node.shape(x)[at])) throw LacksOperator{"it takes a part of the batch"};
  return node.add(Slice{static_cast<int>(at), start, count}, {x});
}

/// Element `index` of an axis, without the axis.
ValueId selected(const Pt2Node& node, ValueId x, std::size_t at, std::int64_t index) {
  const ValueId one = sliced(node, x, at, index, 1);
  Sizes shape = node.shape(one);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  return reshaped(node, one, shape);
}

void select(const Pt2Node& node) {
  const ValueId x = self(node);
  const std::size_t at = axis(node, "dim", 0, node.shape(x).size());
  const std::int64_t index = node.integer("index");
  const std::int64_t size = node.shape(x)[at].fixed;
  node.give_view(selected(node, x, at, index < 0 ? index + size : index), "self");
}

/// A position as Python counts it, within the axis.
std::int64_t within(std::int64_t position, std::int64_t size) {
  return std::clamp<std::int64_t>(position < 0 ? position + size : position, 0, size);
}

void slice(const Pt2Node& node) {
  const ValueId x = self(node);
  const std::size_t at = axis(node, "dim", 0, node.shape(x).size());
  const Size size = node.shape(x)[at];
  if (node.integer("step", 1) != 1) throw LacksOperator{"its step is not 1"};
  const std::int64_t all = std::numeric_limits<std::int64_t>::max();
  if (!is_fixed(size)) {  // of the batch: only the whole
    const bool whole_end = !node.has("end") || node.size("end") == size ||
                           (is_fixed(node.size("end")) && node.integer("end") == all);
    if (node.integer("start", 0) != 0 || !whole_end)
      throw LacksOperator{"it takes a part of the batch"};
    return node.give_view(x, "self");
  }
  const std::int64_t start = within(node.integer("start", 0), size.fixed);
  const std::int64_t end = within(node.integer("end", all), size.fixed);
  if (end <= start) throw LacksOperator{"it takes no element"};
  node.give_view(sliced(node, x, at, start, end - start), "self");
}

void narrow(const Pt2Node& node) {
  const ValueId x = self(node);
  const std::size_t at = axis(node, "dim", 0, node.shape(x).size());
  const std::int64_t start = node.integer("start");
  const std::int64_t size = node.shape(x)[at].fixed;
  node.give_view(sliced(node, x, at, start < 0 ? start + size : start, node.integer("length")),
                 "self");
}

/// Gives outputs of these sizes along an axis.
void give_parts(const Pt2Node& node, std::size_t at, const std::vector<std::int64_t>& counts) {
  const ValueId x = self(node);
  if (counts.size() != node.outputs().size())
    node.json().fail(
        fmt::format("it has {} outputs, not {}", node.outputs().size(), counts.size()));
  std::int64_t start = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    node.context().name(node.outputs()[i], sliced(node, x, at, start, counts[i]));
    node.context().share(node.name_of("self"), node.outputs()[i]);
    start += counts[i];
  }
}

/// Parts of `each` elements; the last one may be smaller.
void give_equal_parts(const Pt2Node& node, std::size_t at, std::int64_t each) {
  const Size size = node.shape(self(node))[at];
  if (!is_fixed(size)) throw LacksOperator{"it takes parts of the batch"};
  if (each < 1) node.json().fail("its parts have no elements");
  if ((size.fixed - 1) / each + 1 != std::ssize(node.outputs()))
    node.json().fail(fmt::format("it has {} outputs", node.outputs().size()));
  std::vector<std::int64_t> counts;
  for (std::int64_t left = size.fixed; left > 0; left -= each)
    counts.push_back(std::min(left, each));
  give_parts(node, at, counts);
}

void chunk(const Pt2Node& node) {
  const Sizes& shape = node.shape(self(node));
  const std::size_t at = axis(node, "dim", 0, shape.size());
  const std::int64_t chunks = node.integer("chunks");
  if (chunks < 1 || chunks > (std::int64_t{1} << 32)) node.json().fail("'chunks' is out of range");
  give_equal_parts(node, at, (shape[at].fixed + chunks - 1) / chunks);
}

void split(const Pt2Node& node) {
  const std::size_t at = axis(node, "dim", 0, node.shape(self(node)).size());
  give_equal_parts(node, at, node.integer("split_size"));
}

void split_with_sizes(const Pt2Node& node) {
  const std::size_t at = axis(node, "dim", 0, node.shape(self(node)).size());
  give_parts(node, at, node.integers("split_sizes", {}));
}

void unbind(const Pt2Node& node) {
  const ValueId x = self(node);
  const std::size_t at = axis(node, "dim", 0, node.shape(x).size());
  if (node.shape(x)[at] != fixed(std::ssize(node.outputs())))
    throw LacksOperator{
        fmt::format("{} outputs of {}", node.outputs().size(), to_string(node.shape(x)))};
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    node.context().name(node.outputs()[i], selected(node, x, at, static_cast<std::int64_t>(i)));
    node.context().share(node.name_of("self"), node.outputs()[i]);
  }
}

void concatenate(const Pt2Node& node) {
  const std::vector<ValueId> parts = node.values("tensors");
  if (parts.empty()) node.json().fail("it has no inputs");
  const auto at = static_cast<int>(axis(node, "dim", 0, node.shape(parts.front()).size()));
  node.give(parts.size() == 1 ? parts.front() : node.add(Concatenate{at}, parts));
}

void stack(const Pt2Node& node) {
  std::vector<ValueId> parts = node.values("tensors");
  if (parts.empty()) node.json().fail("it has no inputs");
  const std::size_t at = axis(node, "dim", 0, node.shape(parts.front()).size() + 1);
  for (ValueId& part : parts) {
    Sizes shape = node.shape(part);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(std::min(at, shape.size())), fixed(1));
    part = reshaped(node, part, shape);
  }
  node.give(node.add(Concatenate{static_cast<int>(at)}, parts));
}

void expand(const Pt2Node& node) {
  const ValueId x = self(node);
  Sizes to = node.sizes("size");
  const Sizes from = node.shape(x);
  if (to.size() < from.size()) node.json().fail("it has fewer axes than its input");
  for (std::size_t i = 0; i < from.size(); ++i)
    if (Size& size = to[to.size() - 1 - i]; size == fixed(-1)) size = from[from.size() - 1 - i];
  node.give_view(to == from ? x : node.add(Expand{to}, {x}), "self");
}

void expand_as(const Pt2Node& node) {
  const ValueId x = self(node);
  const Sizes to = node.shape(node.value("other"));
  node.give_view(to == node.shape(x) ? x : node.add(Expand{to}, {x}), "self");
}

/// Operators that change neither elements nor shape. Conversions between floating-point types are
/// among them: the run's precision is an option.
void identity(const Pt2Node& node) {
  const std::string name = node.has("self") ? "self" : "input";  // dropout's is "input"
  node.give_view(node.value(name), name);
}

void copy(const Pt2Node& node) { node.give(self(node)); }

void convert(const Pt2Node& node) {
  if (!is_floating(node.context().stated_dtype(node.outputs().at(0))))
    throw LacksOperator{"it converts to a type other than a floating-point one"};
  identity(node);
}

/// Of constants it changes nothing; of other values it would stop their gradients.
void detach(const Pt2Node& node) {
  if (node.context().builder.graph.value(self(node)).kind != Value::Kind::constant)
    throw LacksOperator{"it stops the gradient", freeze_instead};
  identity(node);
}

}  // namespace

void add_movement(Pt2Handlers& handlers) {
  handlers["view.default"] = handlers["_unsafe_view.default"] = view;
  handlers["reshape.default"] = reshape;
  handlers["flatten.using_ints"] = flatten;
  handlers["unflatten.int"] = unflatten;
  handlers["unsqueeze.default"] = unsqueeze;
  handlers["squeeze.default"] = handlers["squeeze.dim"] = handlers["squeeze.dims"] = squeeze;
  handlers["transpose.int"] = transpose;
  handlers["swapaxes.default"] = swap_axes;
  handlers["t.default"] = handlers["numpy_T.default"] = matrix_transpose;
  handlers["mT.default"] = last_axes;
  handlers["permute.default"] = permute;
  handlers["select.int"] = select;
  handlers["slice.Tensor"] = slice;
  handlers["narrow.default"] = narrow;
  handlers["chunk.default"] = chunk;
  handlers["split.Tensor"] = split;
  handlers["split_with_sizes.default"] = handlers["split.sizes"] = split_with_sizes;
  handlers["unbind.int"] = unbind;
  handlers["cat.default"] = concatenate;
  handlers["stack.default"] = stack;
  handlers["expand.default"] = expand;
  handlers["expand_as.default"] = expand_as;
  for (const char* name : {"contiguous.default", "alias.default"}) handlers[name] = identity;
  for (const char* name : {"clone.default", "lift_fresh_copy.default", "lift_fresh.default"})
    handlers[name] = copy;
  for (const char* name : {"to.dtype", "to.dtype_layout", "to.device", "_to_copy.default",
                           "type_as.default", "to.other"})
    handlers[name] = convert;
  handlers["detach.default"] = detach;
}

}  // namespace troupe::graph
