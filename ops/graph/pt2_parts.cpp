// Parts of tensors: slices, concatenation, and what is made of them.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

constexpr std::int64_t most_parts = 4096;  // into which an operator divides a tensor

ValueId self(const Pt2Node& node) { return node.value("self"); }

/// Elements [start, start + count) of an axis; the value itself if these are all.
ValueId sliced(const Pt2Node& node, ValueId x, std::size_t at, std::int64_t start,
               std::int64_t count) {
  if (start == 0 && fixed(count) == node.shape(x)[at]) return x;
  if (!is_fixed(node.shape(x)[at])) throw LacksOperator{"it takes a part of the batch"};
  return node.add(Slice{static_cast<int>(at), start, count}, {x});
}

/// x with `count` elements of the value before or behind it; of fewer than 0, without so many.
ValueId padded(const Pt2Node& node, ValueId x, std::size_t at, std::int64_t count, bool before,
               double value) {
  if (count == 0) return x;
  Sizes shape = node.shape(x);
  const Size size = shape[at];
  if (!is_fixed(size)) throw LacksOperator{"it pads the batch"};
  if (count < 0) {
    if (size.fixed + count < 1) throw LacksOperator{"it leaves no element"};
    return sliced(node, x, at, before ? -count : 0, size.fixed + count);
  }
  const Tensor number =
      Tensor::from<double>(Shape(std::vector<std::int64_t>(shape.size(), 1)), {&value, 1});
  shape[at] = fixed(count);
  const ValueId padding =
      node.add(Expand{shape}, {node.context().constant(node.origin().name, number)});
  const std::vector<ValueId> parts{before ? padding : x, before ? x : padding};
  return node.add(Concatenate{static_cast<int>(at)}, parts);
}

/// Every `step`-th of the elements [start, end) of an axis.
ValueId stepped(const Pt2Node& node, ValueId x, std::size_t at, std::int64_t start,
                std::int64_t end, std::int64_t step) {
  const std::int64_t count = (end - start + step - 1) / step;
  x = sliced(node, x, at, start, std::min(end - start, count * step));
  x = padded(node, x, at, count * step - node.shape(x)[at].fixed, false, 0.0);
  const Sizes shape = node.shape(x);
  Sizes steps = shape;
  steps[at] = fixed(count);
  steps.insert(steps.begin() + static_cast<std::ptrdiff_t>(at) + 1, fixed(step));
  x = sliced(node, node.add(Reshape{steps}, {x}), at + 1, 0, 1);
  Sizes to = shape;
  to[at] = fixed(count);
  return node.add(Reshape{to}, {x});
}

/// Element `index` of an axis, without the axis.
ValueId selected(const Pt2Node& node, ValueId x, std::size_t at, std::int64_t index) {
  const ValueId one = sliced(node, x, at, index, 1);
  Sizes shape = node.shape(one);
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(at));
  return node.reshaped(one, shape);
}

void select(const Pt2Node& node) {
  const ValueId x = self(node);
  const std::size_t at = node.axis("dim", 0, node.shape(x).size());
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
  const std::size_t at = node.axis("dim", 0, node.shape(x).size());
  const Size size = node.shape(x)[at];
  const std::int64_t step = node.integer("step", 1);
  if (step < 1 || step > most_parts) node.json().fail(fmt::format("its step is {}", step));
  const std::int64_t all = std::numeric_limits<std::int64_t>::max();
  if (!is_fixed(size)) {  // of the batch: only the whole
    const bool whole_end = !node.has("end") || node.size("end") == size ||
                           (is_fixed(node.size("end")) && node.integer("end") == all);
    if (node.integer("start", 0) != 0 || !whole_end || step != 1)
      throw LacksOperator{"it takes a part of the batch"};
    return node.give_view(x, "self");
  }
  const std::int64_t start = within(node.integer("start", 0), size.fixed);
  const std::int64_t end = within(node.integer("end", all), size.fixed);
  if (end <= start) throw LacksOperator{"it takes no element"};
  if (step != 1) return node.give_view(stepped(node, x, at, start, end, step), "self");
  node.give_view(sliced(node, x, at, start, end - start), "self");
  node.context().parts[node.outputs().at(0)] = {node.name_of("self"), at, start, end - start};
}

void narrow(const Pt2Node& node) {
  const ValueId x = self(node);
  const std::size_t at = node.axis("dim", 0, node.shape(x).size());
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
  const std::size_t at = node.axis("dim", 0, shape.size());
  const std::int64_t chunks = node.integer("chunks");
  if (chunks < 1 || chunks > (std::int64_t{1} << 32)) node.json().fail("'chunks' is out of range");
  give_equal_parts(node, at, (shape[at].fixed + chunks - 1) / chunks);
}

void split(const Pt2Node& node) {
  const std::size_t at = node.axis("dim", 0, node.shape(self(node)).size());
  give_equal_parts(node, at, node.integer("split_size"));
}

void split_with_sizes(const Pt2Node& node) {
  const std::size_t at = node.axis("dim", 0, node.shape(self(node)).size());
  give_parts(node, at, node.integers("split_sizes", {}));
}

void unbind(const Pt2Node& node) {
  const ValueId x = self(node);
  const std::size_t at = node.axis("dim", 0, node.shape(x).size());
  if (node.shape(x)[at] != fixed(std::ssize(node.outputs())))
    throw LacksOperator{
        fmt::format("{} outputs of {}", node.outputs().size(), to_string(node.shape(x)))};
  for (std::size_t i = 0; i < node.outputs().size(); ++i) {
    node.context().name(node.outputs()[i], selected(node, x, at, static_cast<std::int64_t>(i)));
    node.context().share(node.name_of("self"), node.outputs()[i]);
  }
}

void concatenate(const Pt2Node& node) {
  std::vector<ValueId> parts = node.values("tensors");
  const Sizes nothing{fixed(0)};  // what PyTorch leaves out, whatever the axes of the others
  std::erase_if(parts, [&](ValueId part) { return node.shape(part) == nothing; });
  if (parts.empty()) node.json().fail("it has no inputs");
  const auto at = static_cast<int>(node.axis("dim", 0, node.shape(parts.front()).size()));
  node.give(parts.size() == 1 ? parts.front() : node.add(Concatenate{at}, parts));
}

void stack(const Pt2Node& node) {
  std::vector<ValueId> parts = node.values("tensors");
  if (parts.empty()) node.json().fail("it has no inputs");
  const std::size_t at = node.axis("dim", 0, node.shape(parts.front()).size() + 1);
  for (ValueId& part : parts) {
    Sizes shape = node.shape(part);
    shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(std::min(at, shape.size())), fixed(1));
    part = node.reshaped(part, shape);
  }
  node.give(node.add(Concatenate{static_cast<int>(at)}, parts));
}

/// Copies of x one behind the other.
ValueId copies(const Pt2Node& node, ValueId x, std::size_t at, std::int64_t count) {
  if (!is_fixed(node.shape(x)[at])) throw LacksOperator{"it repeats the batch"};
  node.context().take_nodes(count);
  if (count < 1 || count > most_parts)
    throw LacksOperator{fmt::format("it repeats {} times", count)};
  const std::vector<ValueId> parts(static_cast<std::size_t>(count), x);
  return node.add(Concatenate{static_cast<int>(at)}, parts);
}

void repeat(const Pt2Node& node) {
  ValueId x = self(node);
  const Sizes times = node.sizes("repeats");
  Sizes shape = node.shape(x);
  if (times.size() < shape.size()) node.json().fail("it has fewer axes than its input");
  shape.insert(shape.begin(), times.size() - shape.size(), fixed(1));
  x = node.reshaped(x, shape);
  Sizes to = shape;
  for (std::size_t at = 0; at < times.size(); ++at) {
    if (shape[at] == fixed(1)) {
      to[at] = times[at];
    } else if (times[at] != fixed(1)) {
      if (!is_fixed(times[at])) throw LacksOperator{"it repeats an axis for each sample"};
      x = copies(node, x, at, times[at].fixed);
      to[at] = node.shape(x)[at];
    }
  }
  node.give(to == node.shape(x) ? x : node.add(Expand{to}, {x}));
}

void roll(const Pt2Node& node) {
  ValueId x = self(node);
  const auto shifts = node.integers("shifts", {}), dims = node.integers("dims", {});
  if (dims.empty()) throw LacksOperator{"it has no dims"};
  if (dims.size() != shifts.size()) node.json().fail("its shifts and dims do not fit");
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto at = static_cast<std::size_t>(axis_of(dims[i], node.shape(x).size()));
    const std::int64_t size = node.shape(x)[at].fixed;
    if (!is_fixed(node.shape(x)[at])) throw LacksOperator{std::string(combines_samples)};
    const std::int64_t first = size == 0 ? 0 : (size - shifts[i] % size) % size;
    if (first == 0) continue;
    const ValueId end = sliced(node, x, at, first, size - first);
    x = node.add(Concatenate{static_cast<int>(at)}, {end, sliced(node, x, at, 0, first)});
  }
  node.give(x);
}

void flip(const Pt2Node& node) {
  ValueId x = self(node);
  for (const std::int64_t dim : node.integers("dims", {})) {
    const auto at = static_cast<std::size_t>(axis_of(dim, node.shape(x).size()));
    const std::int64_t size = node.shape(x)[at].fixed;
    if (!is_fixed(node.shape(x)[at])) throw LacksOperator{std::string(combines_samples)};
    if (size > most_parts) throw LacksOperator{fmt::format("it reverses {} elements", size)};
    node.context().take_nodes(size);
    std::vector<ValueId> parts;
    for (std::int64_t i = size; i-- > 0;) parts.push_back(sliced(node, x, at, i, 1));
    if (size > 1) x = node.add(Concatenate{static_cast<int>(at)}, parts);
  }
  node.give(x);
}

/// The last axis first: (left, right, top, bottom, …).
void pad(const Pt2Node& node) {
  ValueId x = self(node);
  const std::vector<std::int64_t> counts = node.integers("pad", {});
  const std::size_t rank = node.shape(x).size();
  if (node.text("mode", "constant") != "constant")
    throw LacksOperator{fmt::format("its mode is {}", printable(node.text("mode", "")))};
  if (counts.size() % 2 != 0 || counts.size() > 2 * rank)
    node.json().fail(fmt::format("it has {} numbers for {} axes", counts.size(), rank));
  for (std::size_t i = 0; i < counts.size(); ++i)
    x = padded(node, x, rank - 1 - i / 2, counts[i], i % 2 == 0, node.number("value", 0.0));
  node.give(x);
}

}  // namespace

void add_parts(Pt2Handlers& handlers) {
  handlers["repeat.default"] = repeat;
  handlers["roll.default"] = roll;
  handlers["flip.default"] = flip;
  handlers["pad.default"] = handlers["constant_pad_nd.default"] = pad;
  handlers["select.int"] = select;
  handlers["slice.Tensor"] = slice;
  handlers["narrow.default"] = narrow;
  handlers["chunk.default"] = chunk;
  handlers["split.Tensor"] = split;
  handlers["split_with_sizes.default"] = handlers["split.sizes"] = split_with_sizes;
  handlers["unbind.int"] = unbind;
  handlers["cat.default"] = concatenate;
  handlers["stack.default"] = stack;
}

}  // namespace troupe::graph
