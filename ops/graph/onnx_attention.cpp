// Attention below opset 23, which the export writes as products and a softmax:
// softmax(q * a  @  transposed(k) * b  + mask) @ v.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/graph/onnx_import.h"

namespace troupe::graph::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// A value without the factor of an Affine before it, which is multiplied into `scale`.
ValueId without_factor(const Call& call, ValueId id, double& scale) {
  const auto* affine = call.producer_as<Affine>(id);
  if (!affine || affine->offset != 0.0) return id;
  scale *= affine->factor;
  return call.producer(id)->inputs[0];
}

Sizes with_last_swapped(Sizes sizes) {
  if (sizes.size() >= 2) std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  return sizes;
}

/// k for its transposition by a Permute, or by a Permute of three axes between two Reshapes.
std::optional<ValueId> transposed_of(Call& call, ValueId id) {
  ValueId inner = id;
  if (call.producer_as<Reshape>(inner)) inner = call.producer(inner)->inputs[0];
  const auto* permute = call.producer_as<Permute>(inner);
  if (!permute || permute->axes.size() < 3) return std::nullopt;
  std::vector<int> axes = permute->axes;
  std::swap(axes[axes.size() - 1], axes[axes.size() - 2]);
  const ValueId from = call.producer(inner)->inputs[0];
  const bool only_last = std::ranges::is_sorted(axes);
  if (inner == id) return only_last ? from : call.add(Permute{axes}, {from});
  // Reshaped: outer axes are merged before and separated after it.
  if (!only_last || !call.producer_as<Reshape>(from)) return std::nullopt;
  const ValueId k = call.producer(from)->inputs[0];
  const bool merges_outer =
      with_last_swapped(call.shape(k)) == call.shape(id) &&
      std::equal(call.shape(k).end() - 2, call.shape(k).end(), call.shape(from).end() - 2);
  return merges_outer ? std::optional(k) : std::nullopt;
}

/// Whether a mask lets each token see itself and those before it, as is_causal does.
bool is_causal(const Numbers& mask) {
  if (mask.shape.rank() < 2 || mask.count() == 0) return false;
  const std::int64_t rows = mask.shape.dim(-2), columns = mask.shape.dim(-1);
  for (std::int64_t i = 0; i < mask.count(); ++i) {
    const bool is_seen = i % columns <= i / columns % rows;
    const double added = mask.reals[static_cast<std::size_t>(i)];
    if (is_seen ? added != 0.0 : added > as_good_as_minus_infinity) return false;
  }
  return rows > 1;
}

/// The scale of files is f32, and the usual one is known better.
double exact_scale(double scale, const Sizes& q) {
  const double usual =
      1.0 /
      std::sqrt(static_cast<double>(std::max<std::int64_t>(1, q.empty() ? 1 : q.back().fixed)));
  return std::abs(scale - usual) < 1e-7 * usual ? usual : scale;
}

Numbers numbers_of_constant(const Value& value) {
  Numbers numbers{.dtype = DType::f64, .shape = value.constant.shape()};
  numbers.reals.assign(value.constant.elements<double>().begin(),
                       value.constant.elements<double>().end());
  return numbers;
}

/// The constant that is added to the scores, if one is.
std::optional<Numbers> take_mask(Call& call, ValueId& scores) {
  const auto* sum = call.producer_as<Arithmetic>(scores);
  if (!sum || sum->operation != ArithmeticOperation::add) return std::nullopt;
  const std::vector<ValueId>& terms = call.producer(scores)->inputs;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const Value& mask = call.at(terms[i]);
    if (mask.kind != Value::Kind::constant || mask.constant.dtype() != DType::f64) continue;
    scores = terms[1 - i];
    call.budget().take(call, mask.constant.element_count());
    return numbers_of_constant(mask);
  }
  return std::nullopt;
}

}  // namespace

Numbers additive_mask(Call& call, const Numbers& mask) {
  call.budget().take(call, mask.count());
  if (mask.is_real()) return mask;
  Numbers result{.dtype = DType::f32, .shape = mask.shape};
  for (const Size& is_seen : mask.integers)
    result.reals.push_back(is_seen == Size{} ? -infinity : 0.0);
  return result;
}

ValueId add_attention(Call& call, ValueId q, ValueId k, ValueId v, const Numbers* mask, bool causal,
                      double scale, double dropout) {
  std::vector<ValueId> inputs{q, k, v};
  const bool mask_is_causal = mask && is_causal(*mask);
  if (mask && !mask_is_causal) call.budget().take(call, mask->count());
  if (mask && !mask_is_causal) inputs.push_back(call.constant(*mask));
  return call.add(Attention{.causal = causal || mask_is_causal,
                            .scale = exact_scale(scale, call.shape(q)),
                            .dropout = dropout},
                  inputs);
}

ValueId add_attention(Call& call, ValueId q, ValueId k, ValueId v, ValueId mask, bool causal,
                      double scale) {
  if (!is_floating(call.at(mask).dtype))
    call.refuse("its computed mask does not consist of floating-point numbers");
  return call.add(Attention{.causal = causal, .scale = exact_scale(scale, call.shape(q))},
                  {q, k, v, mask});
}

std::optional<ValueId> as_attention(Call& call, ValueId weights, ValueId values) {
  double dropout = 0.0;
  if (const auto* drops = call.producer_as<Dropout>(weights); drops && drops->drawn_axes == 0) {
    dropout = drops->probability;
    weights = call.producer(weights)->inputs[0];
  }
  const auto* softmax = call.producer_as<Softmax>(weights);
  if (!softmax || softmax->logarithm) return std::nullopt;
  const int rank = static_cast<int>(call.shape(weights).size());
  if (rank < 3 || (softmax->axis != rank - 1 && softmax->axis != -1)) return std::nullopt;
  ValueId scores = call.producer(weights)->inputs[0];
  const std::optional<Numbers> mask = take_mask(call, scores);
  double scale = 1.0;
  scores = without_factor(call, scores, scale);
  if (!call.producer_as<Matmul>(scores)) return std::nullopt;
  const std::vector<ValueId> factors = call.producer(scores)->inputs;
  const ValueId q = without_factor(call, factors[0], scale);
  const auto k = transposed_of(call, without_factor(call, factors[1], scale));
  if (!k) return std::nullopt;
  const auto outer = [&](ValueId id) {
    const Sizes& shape = call.shape(id);
    return Sizes(shape.begin(), shape.end() - 2);
  };
  const bool fits = static_cast<int>(call.shape(q).size()) == rank && outer(q) == outer(*k) &&
                    outer(q) == outer(values);
  if (!fits) return std::nullopt;
  return add_attention(call, q, *k, values, mask ? &*mask : nullptr, false, scale, dropout);
}

}  // namespace troupe::graph::onnx
