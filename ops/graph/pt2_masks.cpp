// Masks: constants that models write, and what they do to tensors that depend on samples.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/graph/pt2_constants.h"
#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

constexpr std::size_t most_slices = 64;
constexpr double infinity = std::numeric_limits<double>::infinity();

double if_kept(double value, double kept) { return kept != 0 ? value : 0.0; }
double unless_kept(double value, double kept) { return kept != 0 ? 0.0 : value; }
double sum(double a, double b) { return a + b; }

/// Of a mask, which is broadcast to the tensor that it masks.
Tensor truths_of(const Pt2Node& node, std::string_view name) {
  const Value mask = node.context().builder.graph.value(unexpanded(node, node.value(name)));
  if (mask.kind != Value::Kind::constant)
    throw LacksOperator{fmt::format("its argument {} is not a constant", name)};
  if (mask.dtype != DType::boolean)
    throw LacksOperator{"its mask does not consist of truth values"};
  return as_reals(mask.constant);
}

Tensor opposite(const Tensor& truths) {
  Tensor result = Tensor::empty(truths.shape(), DType::f64, Device::cpu());
  std::ranges::transform(truths.elements<double>(), result.elements<double>().begin(),
                         [](double is_true) { return 1.0 - is_true; });
  return result;
}

/// 1 where tril or triu keeps the element of a matrix, else 0.
template <bool upper>
Tensor triangle(const Pt2Node& node, const Sizes& shape) {
  const std::size_t rank = shape.size();
  if (rank < 2 || !is_fixed(shape[rank - 2]))
    throw LacksOperator{fmt::format("it takes matrices, not {}", to_string(shape))};
  const std::int64_t rows = shape[rank - 2].fixed, columns = shape[rank - 1].fixed;
  const std::int64_t diagonal = std::clamp(node.integer("diagonal", 0), -rows, columns);
  node.context().take_made(product(Sizes{fixed(rows), fixed(columns)}).fixed);
  Tensor kept = Tensor::empty(Shape{rows, columns}, DType::f64, Device::cpu());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j)
      kept.data<double>()[i * columns + j] = upper ? j - i >= diagonal : j - i <= diagonal;
  return kept;
}

template <bool upper>
void cut(const Pt2Node& node) {
  const ValueId x = node.value("self");
  const Tensor kept = triangle<upper>(node, node.shape(x));
  if (is_known(node, "self"))
    return give_constant(node, of_pairs(node, reals_of(node, "self"), kept, if_kept));
  node.give(node.add(Arithmetic{ArithmeticOperation::multiply},
                     {x, node.context().constant(node.origin().name, kept)}));
}

/// `x` where `kept` is 1, and `others`, a constant, where it is 0.
void give_chosen(const Pt2Node& node, std::string_view x, const Tensor& kept,
                 std::string_view others) {
  const Tensor filled = of_pairs(node, reals_of(node, others), kept, unless_kept);
  if (is_known(node, x)) {
    const Tensor chosen = of_pairs(node, reals_of(node, x), kept, if_kept);
    return give_constant(node, of_pairs(node, chosen, filled, sum));
  }
  const auto constant = [&](const Tensor& numbers) {
    return node.context().constant(node.origin().name, numbers);
  };
  const ValueId product =
      node.add(Arithmetic{ArithmeticOperation::multiply}, {node.value(x), constant(kept)});
  node.give(node.add(Arithmetic{ArithmeticOperation::add}, {product, constant(filled)}));
}

/// Whether the argument is minus infinity, which hides elements from a softmax.
bool hides(const Pt2Node& node, std::string_view name) {
  return is_known(node, name) && std::ranges::all_of(reals_of(node, name).elements<double>(),
                                                     [](double x) { return x == -infinity; });
}

/// One operator in place of two; before a softmax it has the same results and gradients.
void give_hidden(const Pt2Node& node, std::string_view x, std::string_view mask, bool hidden) {
  node.give(node.add(Arithmetic{ArithmeticOperation::add},
                     {node.value(x), additive_mask(node, mask, hidden)}));
}

void where(const Pt2Node& node) {
  const Tensor condition = truths_of(node, "condition");
  if (!is_known(node, "self") && hides(node, "other"))
    return give_hidden(node, "self", "condition", false);
  if (!is_known(node, "other") && hides(node, "self"))
    return give_hidden(node, "other", "condition", true);
  if (is_known(node, "other")) return give_chosen(node, "self", condition, "other");
  give_chosen(node, "other", opposite(condition), "self");
}

void masked_fill(const Pt2Node& node) {
  const Tensor mask = truths_of(node, "mask");
  if (!is_known(node, "self") && hides(node, "value"))
    return give_hidden(node, "self", "mask", true);
  give_chosen(node, "self", opposite(mask), "value");
}

/// Numbers with another value in a slice of a slice of them.
Tensor with_part(Tensor result, const std::vector<Pt2Part>& slices, double value) {
  for (std::int64_t e = 0; e < result.element_count(); ++e) {
    std::vector<std::int64_t> at(static_cast<std::size_t>(result.rank()));
    std::int64_t rest = e;
    for (std::size_t axis = at.size(); axis-- > 0; rest /= result.dim(static_cast<int>(axis)))
      at[axis] = rest % result.dim(static_cast<int>(axis));
    const bool inside = std::ranges::all_of(slices, [&](const Pt2Part& part) {
      at[part.axis] -= part.start;
      return at[part.axis] >= 0 && at[part.axis] < part.count;
    });
    if (inside) result.data<double>()[e] = value;
  }
  return result;
}

/// mask[…] = value, of a constant that the model has made, by slices of it.
void fill(const Pt2Node& node) {
  Pt2Context& context = node.context();
  const Tensor number = node.has("value") ? reals_of(node, "value") : Tensor::zeros({}, DType::f64);
  if (number.element_count() != 1) node.json().fail("its value is not one number");
  const double value = number.elements<double>()[0];
  const Tensor filled = of_pairs(node, reals_of(node, "self"), number,
                                 [](double, double written) { return written; });
  std::string whole = node.name_of("self");
  std::vector<Pt2Part> slices;
  for (auto part = context.parts.find(whole); part != context.parts.end();
       part = context.parts.find(whole)) {
    slices.insert(slices.begin(), part->second);
    whole = part->second.of;
    if (slices.size() > most_slices) throw LacksOperator{"it writes a slice of too many slices"};
  }
  if (!node.in_place() || slices.empty()) return give_constant(node, filled);
  if (context.is_stored(whole) || context.is_view(whole))
    throw LacksOperator{fmt::format("it overwrites a part of {}", printable(whole))};
  const Value before = context.made(whole);
  const std::size_t rank = before.shape.size();
  if (before.kind != Value::Kind::constant ||
      std::ranges::any_of(slices, [&](const Pt2Part& part) { return part.axis >= rank; }))
    node.json().fail("it writes a part of another tensor");
  context.take_made(before.constant.element_count());
  const Tensor after = with_part(as_reals(before.constant).clone(), slices, value);
  context.overwrite(whole, whole, context.constant(whole, as_type(after, before.dtype)));
  context.name(node.outputs().at(0),
               context.constant(node.origin().name, as_type(filled, before.dtype)));
  context.share(whole, node.outputs().at(0));
}

}  // namespace

ValueId additive_mask(const Pt2Node& node, std::string_view mask, bool hidden) {
  const Tensor truths = truths_of(node, mask);
  Pt2Context& context = node.context();
  const ValueId constant = unexpanded(node, node.value(mask));
  const auto [known, is_new] = context.additive_masks.try_emplace({constant, hidden});
  if (!is_new) return known->second;
  Tensor numbers = Tensor::empty(truths.shape(), DType::f64, Device::cpu());
  std::ranges::transform(
      truths.elements<double>(), numbers.elements<double>().begin(),
      [hidden](double is_true) { return (is_true != 0) == hidden ? -infinity : 0.0; });
  return known->second = context.constant(node.name_of(mask), numbers);
}

void add_masks(Pt2Handlers& handlers) {
  for (const char* name : {"fill.Scalar", "fill.Tensor", "zero.default"}) handlers[name] = fill;
  handlers["tril.default"] = cut<false>;
  handlers["triu.default"] = cut<true>;
  handlers["masked_fill.Scalar"] = handlers["masked_fill.Tensor"] = masked_fill;
  for (const char* name : {"where.self", "where.Scalar", "where.ScalarSelf", "where.ScalarOther"})
    handlers[name] = where;
}

}  // namespace troupe::graph
