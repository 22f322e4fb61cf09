// Functions of each element, softmax and reductions, of tensors that depend on data.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "ops/graph/onnx_import.h"

namespace troupe::graph::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

void relu(Call& call) { call.give(call.add(Relu{}, {call.value(0)})); }

void leaky_relu(Call& call) {
  const ValueId x = call.value(0);
  call.give(add_leaky_relu(adder(call), x, call.real("alpha", 0.01)));
}

template <ActivationFunction function>
void activation(Call& call) {
  call.give(call.add(Activate{function}, {call.value(0)}));
}

void tanh(Call& call) {
  const auto& part = call.gelu(0);
  if (part && part->step == GeluPart::Step::scaled_inner)
    return call.give(GeluPart{GeluPart::Step::function, true, part->x});
  activation<ActivationFunction::tanh>(call);
}

/// The error function of x / sqrt(2).
void erf(Call& call) {
  const ValueId scaled = call.value(0);
  const auto* affine = call.producer_as<Affine>(scaled);
  if (!affine || affine->offset != 0.0 || !is_root_of_half(affine->factor))
    call.refuse("it is not a part of a GELU");
  call.give(GeluPart{GeluPart::Step::function, false, call.producer(scaled)->inputs[0]});
}

void gelu(Call& call) {
  const std::string kind = call.text("approximate", "none");
  if (kind != "none" && kind != "tanh") call.refuse(fmt::format("its approximation is '{}'", kind));
  const ActivationFunction function =
      kind == "tanh" ? ActivationFunction::gelu_tanh : ActivationFunction::gelu;
  call.give(call.add(Activate{function}, {call.value(0)}));
}

void hard_sigmoid(Call& call) {
  const double sixth = shortest_decimal(1.0f / 6.0f);
  if (call.real("alpha", 0.2) != sixth || call.real("beta", 0.5) != 0.5)
    call.refuse("it is not PyTorch's Hardsigmoid, x / 6 + 1 / 2");
  call.give(call.add(Activate{ActivationFunction::hardsigmoid}, {call.value(0)}));
}

double bound(const Call& call, int index, double otherwise) {
  return call.has_input(index) ? real_of(call, call.needed_numbers(index)) : otherwise;
}

void clip(Call& call) {
  call.give(call.add(Clamp{bound(call, 1, -infinity), bound(call, 2, infinity)}, {call.value(0)}));
}

/// clamp(min, max) is written as a Max with a Min behind it.
void limit(Call& call) {
  const bool is_max = call.operation() == "Max";
  if (call.input_count() != 2 || call.is_known(0) == call.is_known(1))
    call.refuse("it compares tensors; only comparisons with one number are read");
  const int number = call.is_known(0) ? 0 : 1;
  const Numbers& bound = call.needed_numbers(number);
  const double value = real_of(call, bound);
  const ValueId x = call.value(1 - number);
  if (bound.shape.rank() > static_cast<int>(call.shape(x).size()))
    call.refuse("it adds axes to its result");
  Clamp clamp{is_max ? value : -infinity, is_max ? infinity : value};
  const auto* before = call.producer_as<Clamp>(x);
  if (!before || is_max || before->high != infinity) return call.give(call.add(clamp, {x}));
  clamp.low = before->low;
  call.give(call.add(clamp, {call.producer(x)->inputs[0]}));
}

/// x * sigmoid(x) as SiLU, for factors in either order.
std::optional<ValueId> silu_of(Call& call, ValueId a, ValueId b) {
  for (const auto& [x, factor] : {std::pair{a, b}, std::pair{b, a}}) {
    const auto* sigmoid = call.producer_as<Activate>(factor);
    if (sigmoid && sigmoid->function == ActivationFunction::sigmoid &&
        call.producer(factor)->inputs[0] == x)
      return call.add(Activate{ActivationFunction::silu}, {x});
  }
  return std::nullopt;
}

/// A product with a weight and a bias behind it, in either order, as one Linear.
std::optional<ValueId> linear_of(Call& call, ValueId a, ValueId b) {
  for (const auto& [x, bias] : {std::pair{a, b}, std::pair{b, a}}) {
    if (!call.producer_as<Linear>(x) || call.at(bias).kind != Value::Kind::parameter) continue;
    const std::vector<ValueId>& inputs = call.producer(x)->inputs;
    const bool fits = inputs.size() == 2 && call.shape(bias) == Sizes{call.shape(x).back()};
    if (fits) return call.add(Linear{}, {inputs[0], inputs[1], bias});
  }
  return std::nullopt;
}

/// With a number as one operand.
std::optional<ValueId> affine_of(Call& call, ArithmeticOperation operation) {
  const int number = call.is_known(0) ? 0 : 1;
  const Numbers* numbers = call.numbers(number);
  if (!numbers || numbers->count() != 1) return std::nullopt;
  const ValueId x = call.value(1 - number);
  if (numbers->shape.rank() > static_cast<int>(call.shape(x).size())) return std::nullopt;
  const double value = real_of(call, *numbers);
  switch (operation) {
    case ArithmeticOperation::add:
      return call.add(Affine{1.0, value}, {x});
    case ArithmeticOperation::subtract:
      return call.add(number == 0 ? Affine{-1.0, value} : Affine{1.0, -value}, {x});
    case ArithmeticOperation::multiply:
      return call.add(Affine{value, 0.0}, {x});
    case ArithmeticOperation::divide:
      if (number == 0) return std::nullopt;
      return call.add(Affine{1.0 / value, 0.0}, {x});
  }
  return std::nullopt;
}

/// x + a cube, or x times 1 + a function: the parts of a GELU that meet x again.
bool give_gelu_with(Call& call, ArithmeticOperation operation, const GeluPart& part, ValueId x) {
  using Step = GeluPart::Step;
  if (operation == ArithmeticOperation::add && part.step == Step::scaled_cube && x == part.x)
    return call.give(GeluPart{Step::inner, true, x}), true;
  if (operation != ArithmeticOperation::multiply) return false;
  const auto* affine = call.producer_as<Affine>(x);
  const bool is_half = affine && affine->factor == 0.5 && affine->offset == 0.0 &&
                       call.producer(x)->inputs[0] == part.x;
  const bool completes =
      (part.step == Step::half && x == part.x) || (part.step == Step::function_plus && is_half);
  if (!completes) return false;
  const ActivationFunction function =
      part.tanh ? ActivationFunction::gelu_tanh : ActivationFunction::gelu;
  return call.give(call.add(Activate{function}, {part.x})), true;
}

/// Whether the node is a part of a GELU or completes one, and has been read as such.
bool give_gelu(Call& call, ArithmeticOperation operation) {
  for (const int i : {0, 1}) {
    const std::optional<GeluPart> part = call.gelu(i);
    if (!part || call.gelu(1 - i)) continue;
    if (!call.is_known(1 - i)) return give_gelu_with(call, operation, *part, call.value(1 - i));
    const auto next = gelu_part_with(*part, operation, real_of(call, *call.numbers(1 - i)));
    if (next) call.give(*next);
    return next.has_value();
  }
  return false;
}

template <ArithmeticOperation operation>
void arithmetic(Call& call) {
  if (give_gelu(call, operation) || give_dropout(call, operation)) return;
  if (const auto affine = affine_of(call, operation)) return call.give(*affine);
  const ValueId a = call.value(0), b = call.value(1);
  for (const ValueId id : {a, b})
    if (!is_floating(call.at(id).dtype))
      call.refuse(fmt::format("it computes with {}", troupe::name_of(call.at(id).dtype)));
  std::optional<ValueId> merged;
  if (operation == ArithmeticOperation::multiply) merged = silu_of(call, a, b);
  if (operation == ArithmeticOperation::add) merged = linear_of(call, a, b);
  call.give(merged ? *merged : call.add(Arithmetic{operation}, {a, b}));
}

void reciprocal(Call& call) {
  const Numbers one{.dtype = DType::f32, .shape = Shape{}, .reals = {1.0}};
  call.give(call.add(Arithmetic{ArithmeticOperation::divide}, {call.constant(one), call.value(0)}));
}

void negation(Call& call) { call.give(call.add(Affine{-1.0, 0.0}, {call.value(0)})); }

void power(Call& call) {
  const ValueId x = call.value(0);
  const double exponent = real_of(call, call.needed_numbers(1));
  if (exponent == 3.0) return call.give(GeluPart{GeluPart::Step::cube, true, x});
  if (exponent != 2.0) call.refuse(fmt::format("its exponent is {}, not 2", exponent));
  call.give(call.add(Arithmetic{ArithmeticOperation::multiply}, {x, x}));
}

/// masked_fill(mask, -inf): minus infinity added where the mask is true.
void where(Call& call) {
  const Numbers& condition = call.needed_numbers(0);
  const bool fills_true = call.is_known(1);
  if (call.is_known(1) == call.is_known(2)) call.refuse("it chooses between two tensors");
  const double filled = real_of(call, call.needed_numbers(fills_true ? 1 : 2));
  if (!(filled <= as_good_as_minus_infinity) || condition.is_real())
    call.refuse(fmt::format("it fills elements with {}; only minus infinity is read", filled));
  call.budget().take(call, condition.count());
  Numbers mask{.dtype = DType::f32, .shape = condition.shape};
  for (const Size& is_true : condition.integers)
    mask.reals.push_back((is_true != Size{}) == fills_true ? -infinity : 0.0);
  call.give(call.add(Arithmetic{ArithmeticOperation::add},
                     {call.value(fills_true ? 2 : 1), call.constant(mask)}));
}

template <bool logarithm>
void softmax(Call& call) {
  const ValueId x = call.value(0);
  const int axis = axis_of(call, call.integer("axis", -1), static_cast<int>(call.shape(x).size()));
  if (!is_fixed(call.shape(x)[static_cast<std::size_t>(axis)])) call.refuse(combines_samples);
  call.give(call.add(Softmax{axis, logarithm}, {x}));
}

/// The axes of a reduction, in order; all where there are none.
std::vector<int> axes_of(const Call& call, int rank) {
  std::vector<std::int64_t> given = call.integers("axes").value_or(std::vector<std::int64_t>{});
  if (call.has_input(1)) given = fixed_integers_of(call, call.needed_numbers(1));
  std::vector<int> axes;
  axes.reserve(given.size());
  for (const std::int64_t axis : given) axes.push_back(axis_of(call, axis, rank));
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(rank));
    std::iota(axes.begin(), axes.end(), 0);
  }
  std::ranges::sort(axes);
  return axes;
}

template <bool mean>
void reduce(Call& call) {
  const ValueId x = call.value(0);
  const Sizes shape = call.shape(x);
  const std::vector<int> axes = axes_of(call, static_cast<int>(shape.size()));
  const bool keeps = call.integer("keepdims", 1) != 0;
  for (const int axis : axes)
    if (!is_fixed(shape[static_cast<std::size_t>(axis)])) call.refuse(combines_samples);
  if (mean && shape.size() == 4 && axes == std::vector{2, 3}) {  // global average pooling
    const ValueId pooled = call.add(AdaptiveAveragePool{1, 1}, {x});
    return call.give(keeps ? pooled : call.add(Reshape{{shape[0], shape[1]}}, {pooled}));
  }
  call.give(call.add(Reduce{.axes = axes, .keeps_axes = keeps, .mean = mean}, {x}));
}

constexpr NamedHandler handlers[] = {
    {"Relu", relu},
    {"LeakyRelu", leaky_relu},
    {"Sigmoid", activation<ActivationFunction::sigmoid>},
    {"Tanh", tanh},
    {"Erf", erf},
    {"HardSwish", activation<ActivationFunction::hardswish>},
    {"HardSigmoid", hard_sigmoid},
    {"Gelu", gelu},
    {"Clip", clip},
    {"Less", less},
    {"RandomUniformLike", random_uniform_like},
    {"Max", limit},
    {"Min", limit},
    {"Add", arithmetic<ArithmeticOperation::add>},
    {"Sub", arithmetic<ArithmeticOperation::subtract>},
    {"Mul", arithmetic<ArithmeticOperation::multiply>},
    {"Div", arithmetic<ArithmeticOperation::divide>},
    {"Reciprocal", reciprocal},
    {"Neg", negation},
    {"Pow", power},
    {"Where", where},
    {"Softmax", softmax<false>},
    {"LogSoftmax", softmax<true>},
    {"ReduceMean", reduce<true>},
    {"ReduceSum", reduce<false>},
};

}  // namespace

std::span<const NamedHandler> elementwise_handlers() { return handlers; }

}  // namespace troupe::graph::onnx
