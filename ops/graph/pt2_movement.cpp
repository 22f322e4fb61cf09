#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/graph/pt2_constants.h"
#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

ValueId self(const Pt2Node& node) { return node.value("self"); }

void give_reshaped(const Pt2Node& node, const Sizes& shape) {
  node.give_view(node.reshaped(self(node), shape), "self");
}

void view(const Pt2Node& node) { give_reshaped(node, node.sizes("size")); }
void reshape(const Pt2Node& node) { give_reshaped(node, node.sizes("shape")); }

void flatten(const Pt2Node& node) {
  const Sizes& from = node.shape(self(node));
  if (from.empty()) return give_reshaped(node, {fixed(1)});
  const std::size_t first = node.axis("start_dim", 0, from.size());
  const std::size_t last = node.axis("end_dim", -1, from.size());
  if (first > last) node.json().fail("its axes are in the wrong order");
  Sizes to(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(first));
  to.push_back(product(std::span(from).subspan(first, last - first + 1)));
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(last) + 1, from.end());
  give_reshaped(node, to);
}

void unflatten(const Pt2Node& node) {
  const Sizes from = node.shape(self(node));
  const std::size_t at = node.axis("dim", 0, from.size());
  const Sizes parts = resolved(node.sizes("sizes"), {from[at]});
  Sizes to(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(at));
  to.insert(to.end(), parts.begin(), parts.end());
  to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(at) + 1, from.end());
  give_reshaped(node, to);
}

void unsqueeze(const Pt2Node& node) {
  Sizes shape = node.shape(self(node));
  const std::size_t at = node.axis("dim", 0, shape.size() + 1);
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
void identity(const Pt2Node& node) { node.give_view(self(node), "self"); }

void copy(const Pt2Node& node) { node.give(self(node)); }

void convert(const Pt2Node& node) {
  const Value& from = node.context().builder.graph.value(self(node));
  const DType to = node.context().stated_dtype(node.outputs().at(0));
  if (from.kind == Value::Kind::constant && !(is_floating(from.dtype) && is_floating(to)))
    return convert_constant(node);
  if (!is_floating(to))
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
