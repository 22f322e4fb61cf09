// Attention: one primitive, or in parts where it drops weights or its mask is computed.

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ops/graph/recorder.h"
#include "ops/primitives/activation.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/attention.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/matmul.h"
#include "ops/primitives/reduction.h"
#include "ops/primitives/softmax.h"

namespace troupe::graph {
namespace {

/// A mask, and for each token whether it sees a key: 1 or 0.
struct Opened {
  troupe::Value mask;
  Tensor seen;
};

/// Replaces what is minus infinity by the lowest number where a token sees no key: PyTorch's
/// attention gives zeroes to it, softmax would give NaN. Without a look at the numbers, which may
/// lie on another device.
Opened opened(Tape& tape, troupe::Value mask) {
  const Pass& pass = tape.pass();
  const bool wide = pass.dtype == DType::f64;
  const double lowest =
      wide ? std::numeric_limits<double>::lowest() : double{std::numeric_limits<float>::lowest()};
  const double least = wide ? 0x1p-1022 : 0x1p-126;
  const auto affine = [&](const Tensor& x, double factor, double offset) {
    return primitives::Affine{factor, offset}.forward(pass, x);
  };
  const auto clamp = [&](const Tensor& x, double low, double high) {
    return primitives::Clamp{low, high}.forward(pass, x);
  };
  Tensor numbers = tape.tensor(mask);
  if (numbers.rank() == 0) numbers = numbers.reshape({1});
  // The least number times any finite one is at least -4.
  const Tensor keys = affine(clamp(affine(numbers, least, 0.0), -5.0, -4.0), 1.0, 5.0);
  const Tensor count =
      primitives::Reduce{.axes = {-1}, .keeps_axes = true, .mean = false}.forward(pass, keys);
  const Tensor seen = clamp(count, 0.0, 1.0);
  const Tensor hidden = primitives::Arithmetic{ArithmeticOperation::multiply}.forward(
      pass, affine(keys, 1.0, -1.0), seen);  // -1 or 0
  const Tensor infinite = affine(affine(hidden, 1 / least, 0.0), 1 / least, 0.0);
  mask = tape.record(primitives::Clamp{lowest, std::numeric_limits<double>::infinity()}, mask);
  return {tape.record(primitives::Arithmetic{ArithmeticOperation::add}, mask,
                      tape.input(infinite, false)),
          seen};
}

}  // namespace

Tensor Recorder::causal_mask(const Node& node, std::int64_t tokens, std::int64_t keys) {
  Tensor& kept = block_.constants_[node.output];
  if (kept.defined()) return kept;
  Tensor mask = Tensor::zeros(Shape{tokens, keys}, DType::f64);
  for (std::int64_t token = 0; token < tokens; ++token)
    for (std::int64_t key = token + 1; key < keys; ++key)
      mask.data<double>()[token * keys + key] = -std::numeric_limits<double>::infinity();
  return kept = lasting(mask);
}

// As PyTorch's attention, which gives zeroes to a token that sees no key. Softmax would give NaN.
const BlockModule::OpenMask& Recorder::open_mask(ValueId id) {
  const auto [kept, is_new] = block_.open_masks_.try_emplace(id);
  BlockModule::OpenMask& open = kept->second;
  if (!is_new) return open;
  const Tensor& numbers = graph_.value(id).constant;
  std::vector<std::int64_t> sizes(numbers.shape().dims().begin(), numbers.shape().dims().end());
  if (sizes.empty()) sizes.push_back(1);
  const auto keys = static_cast<std::size_t>(std::exchange(sizes.back(), 1));
  Tensor mask = Tensor::empty(numbers.shape(), DType::f64, Device::cpu());
  Tensor seen = Tensor::empty(Shape(sizes), DType::f64, Device::cpu());
  std::ranges::copy(numbers.elements<double>(), mask.elements<double>().begin());
  for (std::size_t row = 0; row < seen.elements<double>().size(); ++row) {
    const auto of_row = mask.elements<double>().subspan(row * keys, keys);
    const bool sees =
        std::ranges::any_of(of_row, [](double n) { return !(std::isinf(n) && n < 0); });
    seen.elements<double>()[row] = sees ? 1.0 : 0.0;
    if (!sees) std::ranges::fill(of_row, 0.0);
  }
  open.mask = lasting(mask);
  if (std::ranges::count(seen.elements<double>(), 0.0) > 0) open.seen = lasting(seen);
  return open;
}

troupe::Value Recorder::attention(const Step& step, const Node& node, const Attention& options) {
  const troupe::Value q = input(node, 0), k = input(node, 1), v = input(node, 2);
  const bool drops = options.dropout > 0 && tape_.pass().training;
  const bool masked = has(node, 3);
  const bool mask_is_constant =
      masked && graph_.value(node.inputs[3]).kind == Value::Kind::constant;
  if (!drops && masked == mask_is_constant) {
    const Tensor mask = masked ? constant(node.inputs[3]) : Tensor();
    return tape_.record(
        primitives::Attention{.causal = options.causal, .scale = options.scale, .mask = mask}, q, k,
        v);
  }
  const bool is_open = mask_is_constant && !options.causal;  // once for all passes
  const BlockModule::OpenMask open = is_open ? open_mask(node.inputs[3]) : BlockModule::OpenMask{};
  Tensor seen = open.seen;
  // The backward pass reads the dropped weights, and the gradient of a mask such as a learned bias
  // is that of all scores: both are computed as a whole.
  const auto with = [&](troupe::Value x, ArithmeticOperation operation, const Tensor& numbers) {
    return tape_.record(primitives::Arithmetic{operation}, x, tape_.input(numbers, false));
  };
  troupe::Value weights = tape_.record(primitives::Matmul{{.transposed_b = true}}, q, k);
  weights = tape_.record(primitives::Affine{options.scale, 0.0}, weights);
  if (open.mask.defined()) weights = with(weights, ArithmeticOperation::add, open.mask);
  const auto causal_numbers = [&] {
    return causal_mask(node, tape_.tensor(q).dim(-2), tape_.tensor(k).dim(-2));
  };
  if (masked && !is_open) {
    troupe::Value mask = input(node, 3);
    if (options.causal) mask = with(mask, ArithmeticOperation::add, causal_numbers());
    const Opened all = opened(tape_, mask);
    seen = all.seen;
    weights = tape_.record(primitives::Arithmetic{ArithmeticOperation::add}, weights, all.mask);
  } else if (options.causal) {
    weights = with(weights, ArithmeticOperation::add, causal_numbers());
  }
  weights = tape_.record(primitives::Softmax{-1}, weights);
  if (seen.defined()) weights = with(weights, ArithmeticOperation::multiply, seen);
  if (drops) weights = tape_.record(drawing(step, options.dropout), weights);
  return tape_.record(primitives::Matmul{}, weights, v);
}

}  // namespace troupe::graph
