#include "ops/graph/pt2_constants.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/movement.h"
#include "runtime/overloaded.h"

namespace troupe::graph {
namespace {

/// Of the elements that an expanded constant of floating-point numbers has: a larger one is
/// expanded in each pass, for the sake of memory.
constexpr std::int64_t most_repeated = 1 << 20;

const Value& value_of(const Pt2Node& node, ValueId id) {
  return node.context().builder.graph.value(id);
}

bool is_constant(const Pt2Node& node, ValueId id) {
  return id.index >= 0 && value_of(node, id).kind == Value::Kind::constant;
}

Tensor repeated(const Tensor& x, const Sizes& shape) {
  return primitives::Expand{shape_for(shape, 1)}.forward({.dtype = DType::f64}, x);
}

template <class Function>
Tensor of_each(const Pt2Node& node, const Tensor& x, Function&& function) {
  node.context().take_made(x.element_count());
  Tensor result = Tensor::empty(x.shape(), DType::f64, Device::cpu());
  std::ranges::transform(x.elements<double>(), result.elements<double>().begin(), function);
  return result;
}

template <auto function>
void one(const Pt2Node& node) {
  give_constant(node, of_each(node, reals_of(node, "self"), function));
}

template <auto function>
void two(const Pt2Node& node) {
  give_constant(node, of_pairs(node, reals_of(node, "self"), reals_of(node, "other"), function));
}

/// For truth values: of integers it would change their bits.
template <Pt2Handler handler>
void of_truths(const Pt2Node& node) {
  for (const char* name : {"self", "other"})
    if (node.is_tensor(name) && value_of(node, node.value(name)).dtype != DType::boolean)
      throw LacksOperator{"it does not read truth values"};
  handler(node);
}

constexpr double equal(double a, double b) { return a == b; }
constexpr double different(double a, double b) { return a != b; }
constexpr double less(double a, double b) { return a < b; }
constexpr double less_or_equal(double a, double b) { return a <= b; }
constexpr double greater(double a, double b) { return a > b; }
constexpr double greater_or_equal(double a, double b) { return a >= b; }
constexpr double both(double a, double b) { return a != 0 && b != 0; }
constexpr double any(double a, double b) { return a != 0 || b != 0; }
constexpr double either(double a, double b) { return (a != 0) != (b != 0); }
constexpr double neither(double a) { return a == 0; }

void outer(const Pt2Node& node) {
  const Tensor a = reals_of(node, "self"), b = reals_of(node, "vec2");
  if (a.rank() != 1) node.json().fail(fmt::format("{} is not a vector", to_string(a.shape())));
  give_constant(
      node, of_pairs(node, a.reshape({a.dim(0), 1}), b, [](double x, double y) { return x * y; }));
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
  give_constant(node, numbers);
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
  if (is_fixed(count)) return give_constant(node, numbers);
  const ValueId made = node.context().constant(node.origin().name, numbers);
  node.give(node.add(Expand{sizes}, {made}));
}

void eye(const Pt2Node& node) {
  const std::int64_t rows = node.integer("n"), columns = node.integer("m", rows);
  node.context().take_made(product(Sizes{fixed(rows), fixed(columns)}).fixed);
  Tensor result = Tensor::zeros(Shape{rows, columns}, DType::f64);
  for (std::int64_t i = 0; i < std::min(rows, columns); ++i)
    result.data<double>()[i * columns + i] = 1.0;
  give_constant(node, result);
}

/// new_zeros, zeros, …; those named zeros_like have the shape of their argument.
Sizes wanted_sizes(const Pt2Node& node) {
  return node.has("size") ? node.sizes("size") : node.shape(node.value("self"));
}
void zeros(const Pt2Node& node) { give_filled(node, wanted_sizes(node), 0.0); }
void ones(const Pt2Node& node) { give_filled(node, wanted_sizes(node), 1.0); }
void full(const Pt2Node& node) { give_filled(node, wanted_sizes(node), node.number("fill_value")); }

/// result[i, j, …] = self[i, index[i, j, …], …] for dim 1, and so for others.
void gather(const Pt2Node& node) {
  const Tensor x = reals_of(node, "self"), index = reals_of(node, "index");
  const int dim = axis_of(node.integer("dim"), static_cast<std::size_t>(x.rank()));
  bool fits = x.rank() == index.rank();
  for (int axis = 0; fits && axis < x.rank(); ++axis)
    fits = axis == dim || index.dim(axis) <= x.dim(axis);
  if (!fits)
    node.json().fail(
        fmt::format("{} and {} do not fit", to_string(x.shape()), to_string(index.shape())));
  node.context().take_made(index.element_count());
  Tensor result = Tensor::empty(index.shape(), DType::f64, Device::cpu());
  for (std::int64_t e = 0; e < index.element_count(); ++e) {
    std::int64_t rest = e, place = 0, stride = 1;
    for (int axis = x.rank(); axis-- > 0; stride *= x.dim(axis)) {
      const double at =
          axis == dim ? index.data<double>()[e] : static_cast<double>(rest % index.dim(axis));
      if (!(at >= 0 && at < static_cast<double>(x.dim(axis))))
        node.json().fail(fmt::format("its index {} lies outside of {}", at, to_string(x.shape())));
      place += static_cast<std::int64_t>(at) * stride;
      rest /= index.dim(axis);
    }
    result.data<double>()[e] = x.data<double>()[place];
  }
  give_constant(node, result);
}

Tensor computed(const Operator& operation, const std::vector<Tensor>& inputs) {
  const Pass pass{.dtype = DType::f64};
  return std::visit(
      Overloaded{
          [&](const Affine& o) {
            return primitives::Affine{o.factor, o.offset}.forward(pass, inputs[0]);
          },
          [&](const Arithmetic& o) {
            return primitives::Arithmetic{o.operation}.forward(pass, inputs[0], inputs[1]);
          },
          [&](const Reshape& o) { return inputs[0].reshape(shape_for(o.shape, 1)); },
          [&](const Expand& o) { return repeated(inputs[0], o.shape); },
          [&](const Permute& o) { return primitives::Permute{o.axes}.forward(pass, inputs[0]); },
          [&](const Slice& o) {
            return primitives::Slice{o.axis, o.start, o.count}.forward(pass, inputs[0]);
          },
          [&](const Concatenate& o) {
            return primitives::Concatenate{o.axis}.forward(pass, inputs);
          },
          [](const auto&) { return Tensor(); }},
      operation);
}

}  // namespace

Tensor as_reals(const Tensor& constant) {
  constexpr std::int64_t most = std::int64_t{1} << 53;  // f64 has all integers up to this one
  if (is_floating(constant.dtype())) return constant;
  Tensor reals = Tensor::empty(constant.shape(), DType::f64, Device::cpu());
  std::ranges::transform(constant.elements<std::int64_t>(), reals.elements<double>().begin(),
                         [](std::int64_t integer) {
                           if (integer > most || integer < -most)
                             throw LacksOperator{fmt::format("it reads the integer {}", integer)};
                           return static_cast<double>(integer);
                         });
  return reals;
}

Tensor as_type(const Tensor& numbers, DType dtype) {
  if (is_floating(dtype)) return numbers;
  Tensor result = Tensor::empty(numbers.shape(), dtype, Device::cpu());
  for (std::int64_t e = 0; e < numbers.element_count(); ++e) {
    const double number = numbers.data<double>()[e];
    if (dtype == DType::boolean)
      result.raw()[e] = std::byte{number != 0};
    else
      result.data<std::int64_t>()[e] = static_cast<std::int64_t>(number);
  }
  return result;
}

bool is_known(const Pt2Node& node, std::string_view name) {
  return !node.is_tensor(name) || is_constant(node, node.value(name));
}

Tensor reals_of(const Pt2Node& node, std::string_view name) {
  if (!node.is_tensor(name)) {
    const double number = node.number(name);
    return Tensor::from<double>({}, {&number, 1});
  }
  const ValueId id = node.value(name);
  if (!is_constant(node, id))
    throw LacksOperator{fmt::format("its argument {} is not a constant", name)};
  return as_reals(value_of(node, id).constant);
}

Tensor of_pairs(const Pt2Node& node, const Tensor& a, const Tensor& b, PairFunction function) {
  const auto shape = broadcast(sizes_of(a.shape()), sizes_of(b.shape()));
  if (!shape)
    node.json().fail(
        fmt::format("{} and {} do not fit", to_string(a.shape()), to_string(b.shape())));
  node.context().take_made(product(*shape).fixed);
  const Tensor left = repeated(a, *shape), right = repeated(b, *shape);
  Tensor result = Tensor::empty(left.shape(), DType::f64, Device::cpu());
  std::ranges::transform(left.elements<double>(), right.elements<double>(),
                         result.elements<double>().begin(), function);
  return result;
}

void give_constant(const Pt2Node& node, const Tensor& numbers) {
  const DType stated = node.context().stated_dtype(node.outputs().at(0));
  const DType dtype = stated == DType::boolean ? stated : DType::f64;
  node.give(node.context().constant(node.origin().name, as_type(numbers, dtype)));
}

void convert_constant(const Pt2Node& node) {
  const DType dtype = node.context().stated_dtype(node.outputs().at(0));
  const bool truncates = !is_floating(dtype) && dtype != DType::boolean;
  give_constant(node, of_each(node, reals_of(node, "self"), [truncates](double number) {
                  return truncates ? std::trunc(number) : number;
                }));
}

void give_power(const Pt2Node& node) {
  give_constant(node, of_pairs(node, reals_of(node, "self"), reals_of(node, "exponent"),
                               [](double x, double exponent) { return std::pow(x, exponent); }));
}

void give_root(const Pt2Node& node, bool reciprocal) {
  give_constant(node, of_each(node, reals_of(node, "self"), [reciprocal](double x) {
                  return reciprocal ? 1.0 / std::sqrt(x) : std::sqrt(x);
                }));
}

bool moves_elements(const Operator& operation) {
  return std::visit(
      [](const auto& o) {
        return OneOf<std::remove_cvref_t<decltype(o)>, Reshape, Expand, Permute, Slice,
                     Concatenate>;
      },
      operation);
}

ValueId unexpanded(const Pt2Node& node, ValueId value) {
  for (const Node& made : node.context().builder.graph.nodes)
    if (made.output == value && std::holds_alternative<Expand>(made.operation) &&
        is_constant(node, made.inputs[0]))
      return made.inputs[0];
  return value;
}

ValueId fold(const Pt2Node& node, const Operator& operation, const std::vector<ValueId>& inputs) {
  if (inputs.empty() ||
      !std::ranges::all_of(inputs, [&](ValueId id) { return is_constant(node, id); }))
    return {};
  std::vector<const Sizes*> shapes(inputs.size());
  std::ranges::transform(inputs, shapes.begin(),
                         [&](ValueId id) { return &value_of(node, id).shape; });
  const Size count = product(shape_of(operation, shapes));
  const DType dtype = moves_elements(operation) ? value_of(node, inputs[0]).dtype : DType::f64;
  const bool repeats = is_floating(dtype) && std::holds_alternative<Expand>(operation) &&
                       count.fixed > most_repeated;
  if (repeats || !is_fixed(count) || !node.context().can_make(count.fixed)) return {};
  std::vector<Tensor> numbers(inputs.size());
  std::ranges::transform(inputs, numbers.begin(),
                         [&](ValueId id) { return as_reals(value_of(node, id).constant); });
  const Tensor result = computed(operation, numbers);
  if (!result.defined()) return {};
  node.context().take_made(count.fixed);
  return node.context().constant(node.origin().name, as_type(result, dtype));
}

void add_constants(Pt2Handlers& handlers) {
  handlers["arange.default"] = handlers["arange.start"] = handlers["arange.start_step"] = arange;
  handlers["eye.default"] = handlers["eye.m"] = eye;
  for (const char* name : {"zeros.default", "new_zeros.default", "zeros_like.default"})
    handlers[name] = zeros;
  for (const char* name : {"ones.default", "new_ones.default", "ones_like.default"})
    handlers[name] = ones;
  for (const char* name : {"full.default", "new_full.default", "full_like.default"})
    handlers[name] = full;
  handlers["eq.Tensor"] = handlers["eq.Scalar"] = two<equal>;
  handlers["ne.Tensor"] = handlers["ne.Scalar"] = two<different>;
  handlers["lt.Tensor"] = handlers["lt.Scalar"] = two<less>;
  handlers["le.Tensor"] = handlers["le.Scalar"] = two<less_or_equal>;
  handlers["gt.Tensor"] = handlers["gt.Scalar"] = two<greater>;
  handlers["ge.Tensor"] = handlers["ge.Scalar"] = two<greater_or_equal>;
  handlers["logical_and.default"] = two<both>;
  handlers["logical_or.default"] = two<any>;
  handlers["logical_xor.default"] = two<either>;
  handlers["logical_not.default"] = one<neither>;
  handlers["bitwise_and.Tensor"] = handlers["__and__.Tensor"] = of_truths<two<both>>;
  handlers["bitwise_or.Tensor"] = handlers["__or__.Tensor"] = of_truths<two<any>>;
  handlers["bitwise_xor.Tensor"] = handlers["__xor__.Tensor"] = of_truths<two<either>>;
  handlers["bitwise_not.default"] = of_truths<one<neither>>;
  handlers["maximum.default"] = handlers["max.other"] =
      two<[](double a, double b) { return std::max(a, b); }>;
  handlers["minimum.default"] = handlers["min.other"] =
      two<[](double a, double b) { return std::min(a, b); }>;
  handlers["abs.default"] = one<[](double x) { return std::abs(x); }>;
  handlers["exp.default"] = one<[](double x) { return std::exp(x); }>;
  handlers["log.default"] = one<[](double x) { return std::log(x); }>;
  handlers["sin.default"] = one<[](double x) { return std::sin(x); }>;
  handlers["cos.default"] = one<[](double x) { return std::cos(x); }>;
  handlers["floor.default"] = one<[](double x) { return std::floor(x); }>;
  handlers["pow.Scalar"] = handlers["pow.Tensor_Tensor"] = give_power;
  handlers["outer.default"] = outer;
  handlers["gather.default"] = gather;
}

}  // namespace troupe::graph
