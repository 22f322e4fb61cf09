#include "ops/graph/onnx_evaluate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace troupe::graph::onnx {
namespace {

using Inputs = std::span<const Numbers* const>;

Numbers constant(const NodeView& node, Budget& budget) {
  if (const auto* tensor = node.tensor("value"))
    return numbers_of(node, stored_tensor(*tensor, as_bytes_of(*tensor), node.origin(), {}),
                      budget);
  if (node.has("value_int") || node.has("value_float")) {
    const bool real = node.has("value_float");
    Numbers result = budget.make(node, real ? DType::f32 : DType::i64, {});
    if (real) result.reals[0] = node.real("value_float", 0);
    if (!real) result.integers[0] = fixed(node.integer("value_int", 0));
    return result;
  }
  if (const auto integers = node.integers("value_ints")) {
    Numbers result = budget.make(node, DType::i64, {static_cast<std::int64_t>(integers->size())});
    std::ranges::transform(*integers, result.integers.begin(), fixed);
    return result;
  }
  const std::vector<double> reals = node.reals("value_floats");
  if (!node.has("value_floats")) node.refuse("it is a constant of a kind that is not read");
  Numbers result = budget.make(node, DType::f32, {static_cast<std::int64_t>(reals.size())});
  result.reals = reals;
  return result;
}

Numbers filled(const NodeView& node, Inputs inputs, Budget& budget) {
  const auto dims = fixed_integers_of(node, needed(node, inputs, 0));
  const auto* tensor = node.tensor("value");
  Budget one;
  const Numbers value =
      tensor
          ? numbers_of(node, stored_tensor(*tensor, as_bytes_of(*tensor), node.origin(), {}), one)
          : one.make(node, DType::f32, {1});
  if (value.count() != 1) node.damaged("its value is not one number");
  Numbers result = budget.make(node, value.dtype, dims);
  if (result.is_real()) std::ranges::fill(result.reals, value.reals[0]);
  if (!result.is_real()) std::ranges::fill(result.integers, value.integers[0]);
  return result;
}

Numbers range(const NodeView& node, Inputs inputs, Budget& budget) {
  const Numbers& first = needed(node, inputs, 0);
  const double start = real_of(node, first), limit = real_of(node, needed(node, inputs, 1)),
               delta = real_of(node, needed(node, inputs, 2));
  const double steps = delta == 0 ? -1 : std::ceil((limit - start) / delta);
  // Negated, so that it is also true for a NaN.
  if (!(steps < 1e15) || delta == 0) node.damaged("its range is infinite");
  Numbers result =
      budget.make(node, first.dtype, {static_cast<std::int64_t>(std::max(steps, 0.0))});
  for (std::size_t i = 0; i < result.reals.size(); ++i)
    result.reals[i] = start + static_cast<double>(i) * delta;
  for (std::size_t i = 0; i < result.integers.size(); ++i)
    result.integers[i] = fixed(static_cast<std::int64_t>(start + static_cast<double>(i) * delta));
  return result;
}

Numbers converted(const NodeView& node, const Numbers& from, DType dtype, Budget& budget) {
  budget.take(node, from.count());
  Numbers result = from;
  result.dtype = dtype;
  if (result.is_real() == from.is_real()) {
    if (dtype == DType::boolean)
      for (Size& size : result.integers) size = fixed(size == Size{} ? 0 : 1);
    return result;
  }
  result.reals.clear();
  result.integers.clear();
  if (from.is_real())
    for (const double real : from.reals) {
      if (!(std::abs(real) < 9e18))
        node.refuse("it converts a number beyond the range of integers");
      const auto whole = static_cast<std::int64_t>(real);
      result.integers.push_back(fixed(dtype == DType::boolean ? real != 0 : whole));
    }
  else
    for (const std::int64_t integer : fixed_integers_of(node, from))
      result.reals.push_back(static_cast<double>(integer));
  return result;
}

}  // namespace

DType cast_type(const NodeView& node, std::int64_t onnx_type) {
  onnx_wire::Tensor empty;
  empty.add_dims(0);
  empty.set_data_type(static_cast<std::int32_t>(onnx_type));
  try {
    return stored_tensor(std::move(empty), {}, node.origin(), {}).dtype;
  } catch (const Error&) {
    node.refuse(fmt::format("it converts to ONNX's type {}", onnx_type));
  }
}

const Numbers& needed(const NodeView& node, Inputs inputs, std::size_t index) {
  if (index >= inputs.size() || inputs[index] == nullptr)
    node.damaged(fmt::format("its input {} is missing", index + 1));
  return *inputs[index];
}

std::optional<Numbers> evaluate(const NodeView& node, Inputs inputs, Budget& budget) {
  const std::string& operation = node.operation();
  if (operation == "Constant") return constant(node, budget);
  if (operation == "ConstantOfShape") return filled(node, inputs, budget);
  if (operation == "Range") return range(node, inputs, budget);
  if (operation == "Identity") {
    budget.take(node, needed(node, inputs, 0).count());
    return *inputs[0];
  }
  if (operation == "Cast")
    return converted(node, needed(node, inputs, 0), cast_type(node, node.integer("to", 0)), budget);
  if (operation == "CastLike")
    return converted(node, needed(node, inputs, 0), needed(node, inputs, 1).dtype, budget);
  if (auto result = evaluate_arithmetic(node, inputs, budget)) return result;
  return evaluate_movement(node, inputs, budget);
}

}  // namespace troupe::graph::onnx
