#include <fmt/format.h>

#include <limits>

#include "ops/graph/compositions.h"
#include "ops/graph/pt2_constants.h"
#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"

namespace troupe::graph {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

ValueId self(const Pt2Node& node) { return node.value("self"); }

void relu(const Pt2Node& node) { node.give(node.add(Relu{}, {self(node)})); }

template <ActivationFunction function>
void activation(const Pt2Node& node) {
  node.give(node.add(Activate{function}, {self(node)}));
}

void gelu(const Pt2Node& node) {
  const bool tanh = node.text("approximate", "none") == "tanh";
  node.give(node.add(Activate{tanh ? ActivationFunction::gelu_tanh : ActivationFunction::gelu},
                     {self(node)}));
}

void clamp_to(const Pt2Node& node, double low, double high) {
  node.give(node.add(Clamp{low, high}, {self(node)}));
}
void clamp(const Pt2Node& node) {
  clamp_to(node, node.number("min", -infinity), node.number("max", infinity));
}
void hardtanh(const Pt2Node& node) {
  clamp_to(node, node.number("min_val", -1), node.number("max_val", 1));
}
void relu6(const Pt2Node& node) { clamp_to(node, 0, 6); }

/// x * factor + offset, in the order of `operation`, for a number as the second operand.
Affine affine(ArithmeticOperation operation, double number) {
  switch (operation) {
    case ArithmeticOperation::add:
      return {1.0, number};
    case ArithmeticOperation::subtract:
      return {1.0, -number};
    case ArithmeticOperation::multiply:
      return {number, 0.0};
    case ArithmeticOperation::divide:
      return {1.0 / number, 0.0};
  }
  return {};
}

/// A number in place of a tensor: of torch.div(1.0, x).
ValueId scalar(const Pt2Node& node, double number) {
  return node.context().constant(node.origin().name, Tensor::from<double>({}, {&number, 1}));
}

/// Of truth values: a product is true where both are, a sum where one is.
void combine_truths(const Pt2Node& node, ArithmeticOperation operation) {
  const Tensor a = reals_of(node, "self"), b = reals_of(node, "other");
  if (operation == ArithmeticOperation::multiply)
    return give_constant(node, of_pairs(node, a, b, [](double x, double y) { return x * y; }));
  give_constant(node, of_pairs(node, a, b, [](double x, double y) { return x + y; }));
}

template <ArithmeticOperation operation>
void arithmetic(const Pt2Node& node) {
  if (node.context().stated_dtype(node.outputs().at(0)) == DType::boolean)
    return combine_truths(node, operation);
  if (give_masked(node, operation) || give_norm(node, operation)) return;
  if (node.has("rounding_mode")) throw LacksOperator{"it rounds its quotient"};
  const ValueId a = node.is_tensor("self") ? self(node) : scalar(node, node.number("self"));
  const double alpha = node.number("alpha", 1.0);
  if (!node.is_tensor("other"))
    return node.give(node.add(affine(operation, node.number("other") * alpha), {a}));
  ValueId b = node.value("other");
  if (alpha != 1.0) b = node.add(Affine{alpha, 0.0}, {b});
  node.give(node.add(Arithmetic{operation}, {a, b}));
}

/// other - self * alpha.
void reversed_subtraction(const Pt2Node& node) {
  const double alpha = node.number("alpha", 1.0);
  if (!node.is_tensor("other"))
    return node.give(node.add(Affine{-alpha, node.number("other")}, {self(node)}));
  ValueId a = self(node);
  if (alpha != 1.0) a = node.add(Affine{alpha, 0.0}, {a});
  node.give(node.add(Arithmetic{ArithmeticOperation::subtract}, {node.value("other"), a}));
}

void reciprocal(const Pt2Node& node) {
  node.give(node.add(Arithmetic{ArithmeticOperation::divide}, {scalar(node, 1.0), self(node)}));
}

void negation(const Pt2Node& node) { node.give(node.add(Affine{-1.0, 0.0}, {self(node)})); }

void power(const Pt2Node& node) {
  const double exponent = node.number("exponent", 2.0);
  if (is_known(node, "self") && exponent != 2.0) return give_power(node);
  if (exponent != 2.0 && exponent != 3.0)
    throw LacksOperator{fmt::format("its exponent is {}, not 2 or 3", exponent)};
  const ValueId x = self(node);
  ValueId y = node.add(Arithmetic{ArithmeticOperation::multiply}, {x, x});
  if (exponent == 3.0) y = node.add(Arithmetic{ArithmeticOperation::multiply}, {y, x});
  node.give(y);
}

void leaky_relu(const Pt2Node& node) {
  const ValueId x = self(node);
  const AddNode add = [&node](Operator operation, std::vector<ValueId> inputs) {
    return node.add(std::move(operation), std::move(inputs));
  };
  node.give(add_leaky_relu(add, x, node.number("negative_slope", 0.01)));
}

}  // namespace

void add_elementwise(Pt2Handlers& handlers) {
  handlers["relu.default"] = relu;
  handlers["leaky_relu.default"] = leaky_relu;
  handlers["sigmoid.default"] = activation<ActivationFunction::sigmoid>;
  handlers["tanh.default"] = activation<ActivationFunction::tanh>;
  handlers["silu.default"] = activation<ActivationFunction::silu>;
  handlers["hardswish.default"] = activation<ActivationFunction::hardswish>;
  handlers["hardsigmoid.default"] = activation<ActivationFunction::hardsigmoid>;
  handlers["gelu.default"] = gelu;
  handlers["clamp.default"] = clamp;
  handlers["clamp_min.default"] = clamp;
  handlers["clamp_max.default"] = clamp;
  handlers["hardtanh.default"] = hardtanh;
  handlers["relu6.default"] = relu6;
  handlers["add.Tensor"] = handlers["add.Scalar"] = arithmetic<ArithmeticOperation::add>;
  handlers["sub.Tensor"] = handlers["sub.Scalar"] = arithmetic<ArithmeticOperation::subtract>;
  handlers["mul.Tensor"] = handlers["mul.Scalar"] = arithmetic<ArithmeticOperation::multiply>;
  handlers["div.Tensor"] = handlers["div.Scalar"] = arithmetic<ArithmeticOperation::divide>;
  handlers["div.Tensor_mode"] = arithmetic<ArithmeticOperation::divide>;
  handlers["rsub.Scalar"] = handlers["rsub.Tensor"] = reversed_subtraction;
  handlers["reciprocal.default"] = reciprocal;
  handlers["neg.default"] = negation;
  handlers["pow.Tensor_Scalar"] = handlers["square.default"] = power;
}

}  // namespace troupe::graph
