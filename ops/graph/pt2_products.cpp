#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"

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
void mm(const Pt2Node& node) { product_of(node, "mat2"); }

/// The mask of an attention as numbers to add: of truth values 0 and minus infinity, unless the
/// model converts them, or integers, to floating point itself.
ValueId additive(const Pt2Node& node) {
  const ValueId mask = node.value("attn_mask");
  const Value value = node.context().builder.graph.value(mask);
  if (is_floating(value.dtype)) return mask;  // of any kind
  const bool is_constant = value.kind == Value::Kind::constant;
  const bool converted =
      is_constant && is_floating(node.context().stated_dtype(node.name_of("attn_mask")));
  if (value.dtype != DType::boolean && !converted)
    throw LacksOperator{"its mask consists of integers"};
  if (!is_constant) throw LacksOperator{"its mask of truth values is computed"};
  const auto [known, is_new] = node.context().additive_masks.try_emplace({mask, converted});
  if (!is_new) return known->second;
  Tensor numbers = Tensor::empty(value.constant.shape(), DType::f64, Device::cpu());
  for (std::int64_t e = 0; e < numbers.element_count(); ++e) {
    const std::int64_t number = value.constant.data<std::int64_t>()[e];
    const double of_truth = number != 0 ? 0.0 : -std::numeric_limits<double>::infinity();
    numbers.data<double>()[e] = converted ? static_cast<double>(number) : of_truth;
  }
  return known->second = node.context().constant(value.name, std::move(numbers));
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

void arange(const Pt2Node& node) {
  const double start = node.number("start", 0), end = node.number("end"),
               step = node.number("step", 1);
  const double count = std::ceil((end - start) / step);
  if (!(count >= 1 && count <= static_cast<double>(most_made_elements)))
    throw LacksOperator{fmt::format("it makes {} elements", count)};
  node.context().take_made(static_cast<std::int64_t>(count));
  Tensor numbers =
      Tensor::empty(Shape{static_cast<std::int64_t>(count)}, DType::f64, Device::cpu());
  for (std::int64_t i = 0; i < numbers.element_count(); ++i)
    numbers.data<double>()[i] = start + static_cast<double>(i) * step;
  node.give(node.context().constant(node.origin().name, std::move(numbers)));
}

void give_filled(const Pt2Node& node, const Sizes& sizes, double value) {
  const Size count = product(sizes);
  if (count.of(1) > most_made_elements || count.of(1) < 0)
    throw LacksOperator{fmt::format("it makes a constant of the shape {}", to_string(sizes))};
  Sizes of_one = sizes;  // with an axis of the samples: one number, expanded
  if (!is_fixed(count)) std::ranges::fill(of_one, fixed(1));
  node.context().take_made(product(of_one).fixed);
  Tensor numbers = Tensor::empty(shape_for(of_one, 1), DType::f64, Device::cpu());
  std::ranges::fill(numbers.elements<double>(), value);
  const ValueId made = node.context().constant(node.origin().name, std::move(numbers));
  node.give(is_fixed(count) ? made : node.add(Expand{sizes}, {made}));
}
void zeros(const Pt2Node& node) { give_filled(node, node.sizes("size"), 0.0); }
void ones(const Pt2Node& node) { give_filled(node, node.sizes("size"), 1.0); }
void full(const Pt2Node& node) { give_filled(node, node.sizes("size"), node.number("fill_value")); }

}  // namespace

void add_products(Pt2Handlers& handlers) {
  handlers["matmul.default"] = matmul;
  handlers["mm.default"] = handlers["bmm.default"] = mm;
  handlers["scaled_dot_product_attention.default"] = attention;
  handlers["softmax.int"] = softmax<false>;
  handlers["log_softmax.int"] = softmax<true>;
  handlers["mean.dim"] = handlers["mean.default"] = reduce<true>;
  handlers["sum.dim_IntList"] = handlers["sum.default"] = reduce<false>;
  handlers["arange.default"] = handlers["arange.start"] = handlers["arange.start_step"] = arange;
  handlers["zeros.default"] = zeros;
  handlers["ones.default"] = ones;
  handlers["full.default"] = full;
}

}  // namespace troupe::graph
