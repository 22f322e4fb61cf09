#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "ops/graph/pt2_constants.h"
#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

/// For an axis over which an operator sums.
void refuse_batch(const Size& axis) {
  if (!is_fixed(axis)) throw LacksOperator{std::string(combines_samples)};
}

void product_of(const Pt2Node& node, const char* other) {
  const ValueId a = node.value("self"), b = node.value(other);
  if (node.shape(a).size() < 2 || node.shape(b).size() < 2)
    throw LacksOperator{
        fmt::format("{} times {}", to_string(node.shape(a)), to_string(node.shape(b)))};
  refuse_batch(node.shape(a).back());
  node.give(node.add(Matmul{}, {a, b}));
}
void matmul(const Pt2Node& node) { product_of(node, "other"); }
/// self + a b.
void sum_with_product(const Pt2Node& node, const char* first, const char* second) {
  const ValueId bias = node.value("self"), a = node.value(first), b = node.value(second);
  if (node.number("beta", 1.0) != 1.0 || node.number("alpha", 1.0) != 1.0)
    throw LacksOperator{"its beta or alpha is not 1"};
  if (node.shape(a).size() < 2) node.json().fail("its factors are not matrices");
  refuse_batch(node.shape(a).back());
  node.give(node.add(Arithmetic{ArithmeticOperation::add}, {bias, node.add(Matmul{}, {a, b})}));
}
void addmm(const Pt2Node& node) { sum_with_product(node, "mat1", "mat2"); }
void baddbmm(const Pt2Node& node) { sum_with_product(node, "batch1", "batch2"); }

void mm(const Pt2Node& node) { product_of(node, "mat2"); }

std::vector<int> places_in(std::string_view letters, std::string_view wanted) {
  std::vector<int> places;
  for (const char letter : wanted) places.push_back(static_cast<int>(letters.find(letter)));
  return places;
}

Sizes sizes_at(const Sizes& shape, std::string_view letters, std::string_view wanted) {
  Sizes sizes;
  for (const int place : places_in(letters, wanted))
    sizes.push_back(shape[static_cast<std::size_t>(place)]);
  return sizes;
}

std::string common(std::string_view letters, std::string_view others, bool in_others) {
  std::string result;
  for (const char letter : letters)
    if ((others.find(letter) != others.npos) == in_others) result += letter;
  return result;
}

/// An operand as [outer…, rows, columns], where letters of rows and of columns become one axis
/// each.
ValueId as_matrices(const Pt2Node& node, ValueId x, std::string_view letters,
                    const std::string& outer, const std::string& rows, const std::string& columns) {
  const Sizes shape = node.shape(x);
  Sizes to = sizes_at(shape, letters, outer);
  to.push_back(product(sizes_at(shape, letters, rows)));
  to.push_back(product(sizes_at(shape, letters, columns)));
  x = node.add(Permute{places_in(letters, outer + rows + columns)}, {x});
  return node.add(Reshape{to}, {x});
}

/// "bid,bjd->bij" as its operands and its result, each letter once.
std::array<std::string, 3> letters_of(const Pt2Node& node) {
  std::string equation = node.text("equation", "");
  std::erase(equation, ' ');
  const auto comma = equation.find(','), arrow = equation.find("->");
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const bool fits = comma != equation.npos && arrow != equation.npos && comma < arrow;
  std::array<std::string, 3> parts;
  if (fits)
    parts = {equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1),
             equation.substr(arrow + 2)};
  for (const std::string& part : parts)
    if (!fits || !std::ranges::all_of(part, is_letter) ||
        std::set<char>(part.begin(), part.end()).size() != part.size())
      throw LacksOperator{
          fmt::format("its equation is {}; two operands with each letter once are possible",
                      printable(equation))};
  return parts;
}

/// Axes of both operands and the result are outer ones; those of both operands alone are summed.
void einsum(const Pt2Node& node) {
  const auto [left, right, result] = letters_of(node);
  const std::vector<ValueId> operands = node.values("tensors");
  const std::string shared = common(left, right, true);
  const std::string outer = common(shared, result, true), summed = common(shared, result, false);
  const std::string rows = common(left, right, false), columns = common(right, left, false);
  const std::string made = outer + rows + columns;
  if (operands.size() != 2 || node.shape(operands[0]).size() != left.size() ||
      node.shape(operands[1]).size() != right.size())
    node.json().fail("its operands do not fit its equation");
  if (std::set<char>(made.begin(), made.end()) != std::set<char>(result.begin(), result.end()))
    throw LacksOperator{"it sums over an axis of one operand, or repeats one"};
  const Sizes a = node.shape(operands[0]), b = node.shape(operands[1]);
  for (const Size& size : sizes_at(a, left, summed)) refuse_batch(size);
  Sizes to = sizes_at(a, left, outer + rows);
  for (const Size& size : sizes_at(b, right, columns)) to.push_back(size);
  ValueId y = node.add(Matmul{}, {as_matrices(node, operands[0], left, outer, rows, summed),
                                  as_matrices(node, operands[1], right, outer, summed, columns)});
  y = node.add(Reshape{to}, {y});
  node.give(node.add(Permute{places_in(made, result)}, {y}));
}

/// The mask of an attention as numbers to add.
ValueId additive(const Pt2Node& node) {
  const ValueId mask = node.value("attn_mask");
  const DType dtype = node.context().builder.graph.value(mask).dtype;
  if (is_floating(dtype)) return mask;  // of any kind
  if (dtype != DType::boolean) throw LacksOperator{"its mask consists of integers"};
  return additive_mask(node, "attn_mask", false);
}

void attention(const Pt2Node& node) {
  const double dropout = node.number("dropout_p", 0.0);
  if (!(dropout >= 0.0 && dropout < 1.0))
    throw LacksOperator{fmt::format("its dropout has the probability {}", dropout)};
  if (node.boolean("enable_gqa", false)) throw LacksOperator{"enable_gqa=True"};
  std::vector<ValueId> inputs{node.value("query"), node.value("key"), node.value("value")};
  if (node.has("attn_mask")) inputs.push_back(additive(node));
  const Sizes &query = node.shape(inputs.front()), &keys = node.shape(inputs[1]);
  if (keys.size() >= 2) refuse_batch(keys[keys.size() - 2]);
  const double features =
      query.empty() ? 1.0 : static_cast<double>(std::max<std::int64_t>(1, query.back().fixed));
  node.give(node.add(Attention{.causal = node.boolean("is_causal", false),
                               .scale = node.number("scale", 1.0 / std::sqrt(features)),
                               .dropout = dropout},
                     inputs));
}

template <bool logarithm>
void softmax(const Pt2Node& node) {
  const ValueId x = node.value("self");
  const Sizes& shape = node.shape(x);
  const int axis = axis_of(node.integer("dim"), shape.size());
  refuse_batch(shape[static_cast<std::size_t>(axis)]);
  node.give(node.add(Softmax{axis, logarithm}, {x}));
}

/// The axes of "dim", in order; all where there are none.
std::vector<int> axes_of(const Pt2Node& node, std::size_t rank) {
  std::vector<int> axes;
  for (const std::int64_t dim : node.integers("dim", {})) axes.push_back(axis_of(dim, rank));
  if (axes.empty()) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::ranges::sort(axes);
  return axes;
}

template <bool mean>
void reduce(const Pt2Node& node) {
  const ValueId x = node.value("self");
  const Sizes shape = node.shape(x);
  const std::vector<int> axes = axes_of(node, shape.size());
  const bool keeps = node.boolean("keepdim", false);
  for (const int axis : axes) refuse_batch(shape[static_cast<std::size_t>(axis)]);
  if (mean && shape.size() == 4 && axes == std::vector{2, 3}) {  // global average pooling
    const ValueId pooled = node.add(AdaptiveAveragePool{1, 1}, {x});
    return node.give(keeps ? pooled : node.add(Reshape{{shape[0], shape[1]}}, {pooled}));
  }
  node.give(node.add(Reduce{.axes = axes, .keeps_axes = keeps, .mean = mean}, {x}));
}

}  // namespace

void add_products(Pt2Handlers& handlers) {
  handlers["matmul.default"] = matmul;
  handlers["mm.default"] = handlers["bmm.default"] = mm;
  handlers["addmm.default"] = addmm;
  handlers["baddbmm.default"] = baddbmm;
  handlers["einsum.default"] = einsum;
  handlers["scaled_dot_product_attention.default"] = attention;
  handlers["softmax.int"] = softmax<false>;
  handlers["log_softmax.int"] = softmax<true>;
  handlers["mean.dim"] = handlers["mean.default"] = reduce<true>;
  handlers["sum.dim_IntList"] = handlers["sum.default"] = reduce<false>;
}

}  // namespace troupe::graph
