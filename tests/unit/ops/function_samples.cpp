#include "function_samples.h"

#include <array>
#include <utility>

#include "ops/primitives/activation.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/layer_norm.h"
#include "ops/primitives/reduction.h"
#include "ops/primitives/softmax.h"

namespace troupe::testing_ops {
namespace {

using primitives::Affine;
using primitives::Arithmetic;
using primitives::LayerNorm;
using primitives::Reduce;
using primitives::Softmax;

template <class Primitive>
Sample of_one(const std::string& what, const Shape& x, Primitive primitive) {
  return {.name = std::string(Primitive::name) + "/" + what,
          .inputs = {x},
          .record = [primitive](Tape& tape, std::span<const Value> in, OwnedKernels&) {
            return tape.record(primitive, in[0]);
          }};
}

/// Of 4 x, so that numbers on both sides of the edges at -3 and 3 occur.
std::vector<Sample> activations() {
  constexpr std::array<std::pair<const char*, ActivationFunction>, 7> functions{
      {{"sigmoid", ActivationFunction::sigmoid},
       {"tanh", ActivationFunction::tanh},
       {"silu", ActivationFunction::silu},
       {"gelu", ActivationFunction::gelu},
       {"gelu_tanh", ActivationFunction::gelu_tanh},
       {"hardsigmoid", ActivationFunction::hardsigmoid},
       {"hardswish", ActivationFunction::hardswish}}};
  std::vector<Sample> samples;
  for (const auto& [name, function] : functions)
    samples.push_back(
        {.name = std::string("activate/") + name,
         .inputs = {{1, 16, 3, 2}},
         .record = [f = function](Tape& tape, std::span<const Value> in, OwnedKernels&) {
           const Value scaled = tape.record(Affine{4.0, 0.0}, in[0]);
           return tape.record(primitives::Activate{f}, scaled);
         }});
  samples.push_back(of_one("rows", {3, 7}, Affine{-1.5, 0.25}));
  samples.push_back(of_one("images", {2, 3, 5, 3}, primitives::Clamp{-0.5, 0.25}));
  return samples;
}

Sample arithmetic(const std::string& what, const Shape& a, const Shape& b,
                  ArithmeticOperation operation) {
  return {.name = "arithmetic/" + what,
          .inputs = {a, b},
          .record = [operation](Tape& tape, std::span<const Value> in, OwnedKernels&) {
            return tape.record(Arithmetic{operation}, in[0], in[1]);
          }};
}

/// A divisor in (1.5, 2.5).
Sample quotient(const std::string& what, const Shape& a, const Shape& b) {
  return {.name = "arithmetic/" + what,
          .inputs = {a, b},
          .record = [](Tape& tape, std::span<const Value> in, OwnedKernels&) {
            const Value divisor = tape.record(Affine{0.5, 2.0}, in[1]);
            return tape.record(Arithmetic{ArithmeticOperation::divide}, in[0], divisor);
          }};
}

std::vector<Sample> operations() {
  using enum ArithmeticOperation;
  const Shape images{2, 3, 5, 3}, blocked{2, 16, 3, 2}, tokens{2, 5, 7};
  return {arithmetic("equal", images, images, multiply),
          arithmetic("gate", images, {2, 3, 1, 1}, multiply),
          arithmetic("blocked_gate", blocked, {2, 16, 1, 1}, multiply),
          arithmetic("gate_first", {2, 16, 1, 1}, blocked, multiply),
          arithmetic("channels", images, {3, 1, 1}, add),
          arithmetic("blocked_channels", blocked, {1, 16, 1, 1}, subtract),
          arithmetic("pixels", blocked, {1, 3, 2}, multiply),
          arithmetic("image", blocked, {16, 3, 2}, subtract),
          arithmetic("features", tokens, {7}, add),
          arithmetic("positions", tokens, {1, 5, 7}, add),
          arithmetic("token_factors", tokens, {2, 5, 1}, multiply),
          arithmetic("outer", {4, 1}, {1, 3}, multiply),
          arithmetic("number", {}, tokens, subtract),
          quotient("quotient", blocked, {16, 1, 1}),
          quotient("quotient_of_row", {7}, {3, 7}),
          {.name = "arithmetic/square",
           .inputs = {tokens},
           .record = [](Tape& tape, std::span<const Value> in, OwnedKernels&) {
             return tape.record(Arithmetic{multiply}, in[0], in[0]);
           }}};
}

std::vector<Sample> reductions() {
  const Shape blocked{2, 16, 3, 2}, tokens{2, 5, 7};
  const auto sum = [](std::vector<int> axes, bool keeps_axes) {
    return Reduce{.axes = std::move(axes), .keeps_axes = keeps_axes, .mean = false};
  };
  const auto mean = [](std::vector<int> axes, bool keeps_axes) {
    return Reduce{.axes = std::move(axes), .keeps_axes = keeps_axes, .mean = true};
  };
  return {of_one("features", tokens, mean({-1}, true)),
          of_one("outer_and_inner", tokens, sum({2, 0}, false)),
          of_one("tokens", tokens, mean({1}, false)),
          of_one("pixels", {2, 3, 5, 3}, mean({2, 3}, false)),
          of_one("blocked_pixels", blocked, mean({-1, -2}, true)),
          of_one("channels", blocked, sum({1}, false)),
          of_one("samples", blocked, mean({0}, false)),
          of_one("columns", blocked, sum({0, 3}, true)),
          of_one("all", blocked, mean({}, false))};
}

std::vector<Sample> softmaxes() {
  return {of_one("rows", {5, 7}, Softmax{-1, false}),
          of_one("middle", {2, 5, 3}, Softmax{1, false}),
          of_one("channels", {1, 16, 3, 2}, Softmax{1, false}),
          of_one("logarithm", {5, 19}, Softmax{1, true}),
          of_one("logarithm_of_columns", {4, 3, 2}, Softmax{0, true})};
}

Sample layer_norm(const std::string& what, const Shape& x, const Shape& features, int parameters) {
  LayerNorm norm{.features = features.element_count()};
  Sample sample{.name = "layer_norm/" + what, .inputs = {x}, .record = {}};
  if (parameters > 0) norm.weight = {0};
  if (parameters > 1) norm.bias = {1};
  sample.weights.assign(static_cast<std::size_t>(parameters), features);
  sample.record = [norm](Tape& tape, std::span<const Value> in, OwnedKernels&) {
    return tape.record(norm, in[0]);
  };
  return sample;
}

std::vector<Sample> layer_norms() {
  return {layer_norm("rows", {5, 7}, {7}, 2), layer_norm("tokens", {2, 3, 19}, {19}, 2),
          layer_norm("plain", {3, 7}, {7}, 0), layer_norm("unbiased", {3, 7}, {7}, 1),
          layer_norm("images", {2, 16, 3, 2}, {16, 3, 2}, 2)};
}

}  // namespace

std::vector<Sample> function_samples() {
  std::vector<Sample> all;
  for (const auto& samples :
       {activations(), operations(), reductions(), softmaxes(), layer_norms()})
    all.insert(all.end(), samples.begin(), samples.end());
  return all;
}

}  // namespace troupe::testing_ops
