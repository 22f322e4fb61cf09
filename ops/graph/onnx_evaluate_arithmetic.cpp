// Functions of each element, of known tensors.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/graph/onnx_evaluate.h"
#include "runtime/text.h"

namespace troupe::graph::onnx {
namespace {

using Inputs = std::span<const Numbers* const>;
using RealFunction = double (*)(double, double);
using SizeFunction = std::optional<Size> (*)(const Size&, const Size&);

std::int64_t floored_remainder(std::int64_t a, std::int64_t b) {
  const std::int64_t remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

std::optional<Size> quotient(const Size& a, const Size& b) {
  if (!is_fixed(a) || !is_fixed(b)) return divide(a, b);
  if (b.fixed == 0 || b.fixed == -1) return std::nullopt;
  return fixed(a.fixed / b.fixed);
}

std::optional<Size> remainder(const Size& a, const Size& b) {
  if (!is_fixed(a) || !is_fixed(b) || b.fixed == 0 || b.fixed == -1) return std::nullopt;
  return fixed(floored_remainder(a.fixed, b.fixed));
}

/// Compares where the answer is the same for every number of samples from 2 on: -1 and 1 are the
/// sizes that files compare a batch with.
template <class Compare>
std::optional<Size> compared(const Size& a, const Size& b) {
  if (a.per_sample == b.per_sample) return fixed(Compare{}(a.fixed, b.fixed));
  const bool fixed_is_less = is_fixed(a) ? b.per_sample > 0 && b.of(2) > a.fixed
                                         : is_fixed(b) && a.per_sample > 0 && a.of(2) > b.fixed;
  if (!fixed_is_less) return std::nullopt;
  return fixed(is_fixed(a) ? Compare{}(0, 1) : Compare{}(1, 0));
}

template <class Choose>
std::optional<Size> chosen(const Size& a, const Size& b) {
  const auto less = compared<std::less<>>(a, b);
  if (!less) return std::nullopt;
  return Choose{}(less->fixed != 0) ? a : b;
}

struct Binary {
  std::string_view name;
  SizeFunction of_sizes;
  RealFunction of_reals;
  bool compares = false;
};

constexpr bool truth(double value) { return value != 0; }

const Binary binaries[] = {
    {"Add", &add, [](double a, double b) { return a + b; }},
    {"Sub", &subtract, [](double a, double b) { return a - b; }},
    {"Mul", &multiply, [](double a, double b) { return a * b; }},
    {"Div", &quotient, [](double a, double b) { return a / b; }},
    {"Mod", &remainder, [](double a, double b) { return std::fmod(a, b); }},
    {"Pow", nullptr, [](double a, double b) { return std::pow(a, b); }},
    {"Max", &chosen<std::logical_not<>>, [](double a, double b) { return std::max(a, b); }},
    {"Min", &chosen<std::identity>, [](double a, double b) { return std::min(a, b); }},
    {"Equal", &compared<std::equal_to<>>, [](double a, double b) { return double(a == b); }, true},
    {"Less", &compared<std::less<>>, [](double a, double b) { return double(a < b); }, true},
    {"LessOrEqual", &compared<std::less_equal<>>, [](double a, double b) { return double(a <= b); },
     true},
    {"Greater", &compared<std::greater<>>, [](double a, double b) { return double(a > b); }, true},
    {"GreaterOrEqual", &compared<std::greater_equal<>>,
     [](double a, double b) { return double(a >= b); }, true},
    {"And", &compared<std::logical_and<>>,
     [](double a, double b) { return double(truth(a) && truth(b)); }, true},
    {"Or", &compared<std::logical_or<>>,
     [](double a, double b) { return double(truth(a) || truth(b)); }, true},
};

Numbers apply(const NodeView& node, const Binary& function, const Numbers& a, const Numbers& b,
              Budget& budget) {
  if (a.is_real() != b.is_real()) node.damaged("its inputs are of different types");
  if (!a.is_real() && function.of_sizes == nullptr) node.refuse("it is applied to integers");
  const auto dims = broadcast_dims(node, a.shape, b.shape);
  const auto of_a = broadcast_indices(node, dims, a.shape, budget);
  const auto of_b = broadcast_indices(node, dims, b.shape, budget);
  Numbers result = budget.make(node, function.compares ? DType::boolean : a.dtype, dims);
  for (std::size_t i = 0; i < of_a.size(); ++i) {
    if (a.is_real()) {
      const double value = function.of_reals(a.reals[of_a[i]], b.reals[of_b[i]]);
      if (result.is_real()) result.reals[i] = value;
      if (!result.is_real()) result.integers[i] = fixed(truth(value));
      continue;
    }
    const auto value = function.of_sizes(a.integers[of_a[i]], b.integers[of_b[i]]);
    if (!value) node.refuse("its result is not linear in the batch size, or not an integer");
    result.integers[i] = *value;
  }
  return result;
}

struct Unary {
  std::string_view name;
  double (*of_real)(double);
  bool of_integers = false;
};

const Unary unaries[] = {
    {"Sqrt", [](double x) { return std::sqrt(x); }},
    {"Exp", [](double x) { return std::exp(x); }},
    {"Reciprocal", [](double x) { return 1 / x; }},
    {"Floor", [](double x) { return std::floor(x); }},
    {"Ceil", [](double x) { return std::ceil(x); }},
    {"Neg", [](double x) { return -x; }, true},
    {"Abs", [](double x) { return std::abs(x); }, true},
    {"Not", [](double x) { return double(!truth(x)); }, true},
};

Numbers apply(const NodeView& node, const Unary& function, const Numbers& x, Budget& budget) {
  if (!x.is_real() && !function.of_integers) node.refuse("it is applied to integers");
  budget.take(node, x.count());
  Numbers result = x;
  for (double& real : result.reals) real = function.of_real(real);
  if (x.is_real()) return result;
  for (std::size_t i = 0; i < result.integers.size(); ++i) {
    const Size& size = x.integers[i];
    const auto value = function.name == "Neg" ? subtract(Size{}, size)
                       : !is_fixed(size)      ? std::nullopt
                       : function.name == "Not"
                           ? std::optional(fixed(size.fixed == 0))
                           : (size.fixed < 0 ? subtract(Size{}, size) : std::optional(size));
    if (!value) node.refuse("its result depends on the number of samples");
    result.integers[i] = *value;
  }
  return result;
}

Numbers where(const NodeView& node, Inputs inputs, Budget& budget) {
  const Numbers &condition = needed(node, inputs, 0), &yes = needed(node, inputs, 1),
                &no = needed(node, inputs, 2);
  if (condition.is_real() || yes.is_real() != no.is_real())
    node.damaged("its inputs are of types that do not fit");
  const auto dims =
      broadcast_dims(node, Shape(broadcast_dims(node, condition.shape, yes.shape)), no.shape);
  const auto of_condition = broadcast_indices(node, dims, condition.shape, budget);
  const auto of_yes = broadcast_indices(node, dims, yes.shape, budget);
  const auto of_no = broadcast_indices(node, dims, no.shape, budget);
  Numbers result = budget.make(node, yes.dtype, dims);
  for (std::size_t i = 0; i < of_condition.size(); ++i) {
    const bool is_true = condition.integers[of_condition[i]] != Size{};
    if (result.is_real())
      result.reals[i] = is_true ? yes.reals[of_yes[i]] : no.reals[of_no[i]];
    else
      result.integers[i] = is_true ? yes.integers[of_yes[i]] : no.integers[of_no[i]];
  }
  return result;
}

}  // namespace

std::optional<Numbers> evaluate_arithmetic(const NodeView& node, Inputs inputs, Budget& budget) {
  for (const Binary& function : binaries)
    if (function.name == node.operation()) {
      if (node.input_count() != 2)
        node.refuse(fmt::format("it has {}, not 2",
                                counted(static_cast<std::int64_t>(node.input_count()), "input")));
      return apply(node, function, needed(node, inputs, 0), needed(node, inputs, 1), budget);
    }
  for (const Unary& function : unaries)
    if (function.name == node.operation())
      return apply(node, function, needed(node, inputs, 0), budget);
  if (node.operation() == "Where") return where(node, inputs, budget);
  return std::nullopt;
}

}  // namespace troupe::graph::onnx
