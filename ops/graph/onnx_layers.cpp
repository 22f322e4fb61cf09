// Layers with weights, pooling, products.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/graph/onnx_import.h"

namespace troupe::graph::onnx {
namespace {

constexpr std::int64_t most_pixels = 1 << 20;  // of a window, its stride and its padding

/// The numbers of an attribute about windows; nothing if it is absent.
std::optional<std::vector<std::int64_t>> pixels(const Call& call, std::string_view attribute) {
  auto given = call.integers(attribute);
  for (const std::int64_t number : given.value_or(std::vector<std::int64_t>{}))
    if (number < 0 || number > most_pixels)
      call.damaged(
          fmt::format("its '{}' has {}; 0 to {} is possible", attribute, number, most_pixels));
  return given;
}

/// The input of a layer of images: x, or sequences as images.
struct Images {
  ValueId x;
  bool of_sequences = false;
};

Images images_of(Call& call, ValueId x) {
  const Sizes shape = call.shape(x);
  if (are_sequences(shape)) return {call.add(Reshape{as_images(shape)}, {x}), true};
  if (shape.size() != 4)
    call.refuse(
        fmt::format("it takes [batch, channels, height, width] or [batch, channels, "
                    "steps], not {}",
                    to_string(shape)));
  return {x};
}

/// Gives the result of such a layer.
void give_images(Call& call, const Images& images, ValueId y) {
  if (!images.of_sequences) return call.give(y);
  call.give(call.add(Reshape{as_sequences(call.shape(y))}, {y}));
}

/// Height and width of an attribute, which for sequences has the width alone; refuses the node for
/// other numbers of axes.
std::pair<std::int64_t, std::int64_t> pair(const Call& call, std::string_view attribute,
                                           std::int64_t otherwise, bool of_sequences) {
  const auto given = pixels(call, attribute);
  if (!given) return {otherwise, otherwise};
  const std::size_t axes = of_sequences ? 1 : 2;
  if (given->size() != axes)
    call.refuse(fmt::format("its '{}' has {} numbers for {} axes", attribute, given->size(), axes));
  return {of_sequences ? otherwise : given->front(), given->back()};
}

/// Padding of both axes, the same on both sides of each.
std::pair<std::int64_t, std::int64_t> padding(const Call& call, std::int64_t covered_h,
                                              std::int64_t covered_w, bool of_sequences) {
  const std::string kind = call.text("auto_pad", "NOTSET");
  if (kind == "VALID") return {0, 0};
  if (kind == "SAME_UPPER" || kind == "SAME_LOWER") {
    const auto [stride_h, stride_w] = pair(call, "strides", 1, of_sequences);
    if (stride_h != 1 || stride_w != 1 || covered_h % 2 == 0 || covered_w % 2 == 0)
      call.refuse(fmt::format("its padding '{}' differs between the sides of the image", kind));
    return {covered_h / 2, covered_w / 2};
  }
  if (kind != "NOTSET") call.refuse(fmt::format("its padding is '{}'", kind));
  auto pads = pixels(call, "pads");
  if (!pads) return {0, 0};
  if (of_sequences && pads->size() == 2) pads = {0, pads->front(), 0, pads->back()};
  if (pads->size() != 4) call.refuse(fmt::format("it pads {} sides", pads->size()));
  if ((*pads)[0] != (*pads)[2] || (*pads)[1] != (*pads)[3])
    call.refuse("its padding differs between the sides of the image");
  return {(*pads)[0], (*pads)[1]};
}

bool all_are(const Numbers* numbers, double value) {
  return numbers && numbers->is_real() &&
         std::ranges::all_of(numbers->reals, [&](double real) { return real == value; });
}

/// A weight or a bias, which must be a parameter.
ValueId parameter(Call& call, int index) {
  if (call.is_known(index))
    call.refuse(fmt::format("its input '{}' is a constant, not a parameter", call.input(index)));
  const ValueId id = call.value(index);
  if (call.at(id).kind != Value::Kind::parameter)
    call.refuse(fmt::format("its input '{}' is computed, not a parameter", call.input(index)));
  return id;
}

/// A bias is absent also where it is a constant of zeros: so the export writes a layer without.
bool has_bias(const Call& call, int index) {
  return call.has_input(index) && !all_are(call.numbers(index), 0.0);
}

void convolution(Call& call) {
  // The parameters first, as in a .pt2: so both files have the same digest.
  const ValueId weight = parameter(call, 1);
  const ValueId bias = has_bias(call, 2) ? parameter(call, 2) : ValueId{};
  const Images images = images_of(call, call.value(0));
  const bool flat = images.of_sequences;
  Sizes sizes = call.shape(weight);
  if (sizes.size() != (flat ? 3 : 4))
    call.refuse(fmt::format("its weight is {}", to_string(sizes)));
  if (flat) sizes = as_images(sizes);
  ConvolutionOptions o;
  o.groups = call.integer("group", 1);
  o.out_channels = sizes[0].fixed;
  if (o.groups < 1 || o.groups > std::max<std::int64_t>(1, o.out_channels))
    call.damaged(fmt::format("it has {} groups", o.groups));
  o.in_channels = call.checked([&] { return product(Sizes{sizes[1], fixed(o.groups)}); }).fixed;
  o.kernel_h = sizes[2].fixed, o.kernel_w = sizes[3].fixed;
  if (o.kernel_h > most_pixels || o.kernel_w > most_pixels) call.damaged("its kernel is too large");
  std::tie(o.stride_h, o.stride_w) = pair(call, "strides", 1, flat);
  std::tie(o.dilation_h, o.dilation_w) = pair(call, "dilations", 1, flat);
  std::tie(o.padding_h, o.padding_w) =
      padding(call, o.dilation_h * (o.kernel_h - 1) + 1, o.dilation_w * (o.kernel_w - 1) + 1, flat);
  o.bias = bias.index >= 0;
  std::vector<ValueId> inputs{images.x, weight};
  if (o.bias) inputs.push_back(bias);
  give_images(call, images, call.add(Convolution{o}, inputs));
}

/// What the matrix is the transpose of; absent: nothing.
ValueId before_transposition(const Call& call, ValueId matrix) {
  const auto* permute = call.producer_as<Permute>(matrix);
  if (!permute || permute->axes != std::vector<int>{1, 0}) return {};
  return call.producer(matrix)->inputs[0];
}

/// The weight of a Linear, [out, in], for a matrix [in, out].
ValueId weight_of(Call& call, ValueId matrix) {
  const ValueId weight = before_transposition(call, matrix);
  return weight.index >= 0 ? weight : call.add(Permute{{1, 0}}, {matrix});
}

void gemm(Call& call) {
  if (call.real("alpha", 1) != 1 || call.real("beta", 1) != 1 || call.integer("transA", 0) != 0)
    call.refuse("it scales its operands or transposes the first");
  const ValueId x = call.value(0), matrix = call.value(1);
  const ValueId weight = call.integer("transB", 0) != 0 ? matrix : weight_of(call, matrix);
  std::vector<ValueId> inputs{x, weight};
  if (has_bias(call, 2)) inputs.push_back(parameter(call, 2));
  call.give(call.add(Linear{}, inputs));
}

void matmul(Call& call) {
  const ValueId a = call.value(0), b = call.value(1);
  if (call.shape(a).size() < 2 || call.shape(b).size() < 2)
    call.refuse(fmt::format("{} times {}", to_string(call.shape(a)), to_string(call.shape(b))));
  if (!is_fixed(call.shape(a).back())) call.refuse(combines_samples);
  const ValueId weight = before_transposition(call, b);
  if (weight.index >= 0 && call.at(weight).kind == Value::Kind::parameter)
    return call.give(call.add(Linear{}, {a, weight}));
  if (const auto attention = as_attention(call, a, b)) return call.give(*attention);
  call.give(call.add(Matmul{}, {a, b}));
}

/// PyTorch's momentum, 1 - m, as the decimal that it was: 0.1, not 1 - 0.9.
double momentum(const Call& call) {
  const double kept = call.real("momentum", 0.9);
  return shortest_decimal(static_cast<float>(1.0 - kept));
}

void batch_norm(Call& call) {
  if (call.is_for_inference()) call.refuse(evaluation_mode, onnx_export_line);
  if (call.is_known(1) || call.is_known(2)) call.refuse("it has no weight and bias (affine=False)");
  const ValueId weight = parameter(call, 1), bias = parameter(call, 2);
  Images images{call.value(0)};
  if (call.shape(images.x).size() != 2) images = images_of(call, images.x);
  const ValueId mean = call.buffer(3), variance = call.buffer(4);
  BatchNorm norm{.epsilon = call.real("epsilon", 1e-5), .momentum = momentum(call)};
  norm.counter = call.counter_of(call.at(mean).name);
  give_images(call, images, call.add(norm, {images.x, weight, bias, mean, variance}));
}

void layer_norm(Call& call) {
  const ValueId x = call.value(0);
  const Sizes shape = call.shape(x);
  const int axis = axis_of(call, call.integer("axis", -1), static_cast<int>(shape.size()));
  const Size features = call.checked(
      [&] { return product(std::span(shape).subspan(static_cast<std::size_t>(axis))); });
  if (!is_fixed(features)) call.refuse("it normalises over the samples");
  std::vector<ValueId> inputs{x, {}, {}};
  if (call.has_input(1) && !all_are(call.numbers(1), 1.0)) inputs[1] = parameter(call, 1);
  if (has_bias(call, 2)) inputs[2] = parameter(call, 2);
  while (inputs.back().index < 0) inputs.pop_back();
  call.give(call.add(LayerNorm{.features = features.fixed, .epsilon = call.real("epsilon", 1e-5)},
                     inputs));
}

/// Group norm of x with a weight and a bias, or without where these are ones and zeros.
void give_group_norm(Call& call, ValueId x, std::int64_t groups) {
  ValueId weight, bias;
  if (!all_are(call.numbers(1), 1.0)) weight = parameter(call, 1);
  if (has_bias(call, 2)) bias = parameter(call, 2);
  const Sizes shape = call.shape(x);
  call.give(call.checked([&] {
    return add_group_norm(adder(call), x, shape, groups, call.real("epsilon", 1e-5), weight, bias);
  }));
}

void group_norm(Call& call) { give_group_norm(call, call.value(0), call.integer("num_groups", 0)); }

void instance_norm(Call& call) {
  const ValueId x = call.value(0);
  const Sizes& shape = call.shape(x);
  give_group_norm(call, x, shape.size() > 1 ? shape[1].fixed : 0);
}

PoolOptions pool_options(const Call& call, bool of_sequences) {
  PoolOptions o;
  if (!call.has("kernel_shape")) call.damaged("it has no kernel");
  std::tie(o.kernel_h, o.kernel_w) = pair(call, "kernel_shape", 1, of_sequences);
  std::tie(o.stride_h, o.stride_w) = pair(call, "strides", 1, of_sequences);
  std::tie(o.padding_h, o.padding_w) = padding(call, o.kernel_h, o.kernel_w, of_sequences);
  const auto [dilation_h, dilation_w] = pair(call, "dilations", 1, of_sequences);
  if (dilation_h != 1 || dilation_w != 1) call.refuse("its dilation is not 1");
  if (o.stride_h < 1 || o.stride_w < 1) call.damaged("its stride is not positive");
  return o;
}

void max_pool(Call& call) {
  const Images images = images_of(call, call.value(0));
  const PoolOptions options = pool_options(call, images.of_sequences);
  if (call.integer("ceil_mode", 0) == 0)
    return give_images(call, images, call.add(MaxPool{options}, {images.x}));
  const Sizes shape = call.shape(images.x);
  give_images(call, images, call.checked([&] {
    return add_ceil_max_pool(adder(call), images.x, shape, options);
  }));
}

void average_pool(Call& call) {
  const Images images = images_of(call, call.value(0));
  const PoolOptions options = pool_options(call, images.of_sequences);
  const Sizes& shape = call.shape(images.x);
  const bool exact =
      (shape[2].fixed + 2 * options.padding_h - options.kernel_h) % options.stride_h == 0 &&
      (shape[3].fixed + 2 * options.padding_w - options.kernel_w) % options.stride_w == 0;
  if (call.integer("ceil_mode", 0) != 0 && !exact)
    call.refuse("ceil_mode=True with windows that reach beyond the image");
  const bool padded = options.padding_h != 0 || options.padding_w != 0;
  if (padded && call.integer("count_include_pad", 0) == 0)
    call.refuse("count_include_pad=False with padding");
  give_images(call, images, call.add(AveragePool{options}, {images.x}));
}

void global_average_pool(Call& call) {
  const Images images = images_of(call, call.value(0));
  give_images(call, images, call.add(AdaptiveAveragePool{1, 1}, {images.x}));
}

void dropout(Call& call) {
  const ValueId x = call.value(0);
  const double probability = call.has_input(1) ? real_of(call, call.needed_numbers(1)) : 0.5;
  if (probability == 0) return call.give(x);
  // PyTorch writes the dropout of attention without a training_mode, and in evaluation none.
  const bool of_attention = call.producer_as<Softmax>(x) && !call.has_input(2);
  if (!of_attention && (!call.has_input(2) || fixed_integer_of(call, call.needed_numbers(2)) == 0))
    call.refuse(evaluation_mode, onnx_export_line);
  call.give(call.add(Dropout{probability}, {x}));
}

/// The attention of opset 23.
void attention(Call& call) {
  const ValueId q = call.value(0), k = call.value(1), v = call.value(2);
  if (call.shape(q).size() != 4 || call.has_input(4) || call.has_input(5))
    call.refuse("only attention over [batch, heads, tokens, features] without a cache is read");
  const Sizes keys = call.shape(k);
  if (keys.size() == 4 && !is_fixed(keys[2])) call.refuse(combines_samples);
  if (call.real("softcap", 0) != 0) call.refuse("its scores have a limit (softcap)");
  const double features = static_cast<double>(std::max<std::int64_t>(1, call.shape(q)[3].fixed));
  const bool causal = call.integer("is_causal", 0) != 0;
  const double scale = call.real("scale", 1.0 / std::sqrt(features));
  if (call.has_input(3) && !call.is_known(3))
    return call.give(add_attention(call, q, k, v, call.value(3), causal, scale));
  std::optional<Numbers> mask;
  if (call.has_input(3)) mask = additive_mask(call, call.needed_numbers(3));
  call.give(add_attention(call, q, k, v, mask ? &*mask : nullptr, causal, scale));
}

constexpr NamedHandler handlers[] = {
    {"Conv", convolution},
    {"Gemm", gemm},
    {"MatMul", matmul},
    {"BatchNormalization", batch_norm},
    {"LayerNormalization", layer_norm},
    {"GroupNormalization", group_norm},
    {"InstanceNormalization", instance_norm},
    {"MaxPool", max_pool},
    {"AveragePool", average_pool},
    {"GlobalAveragePool", global_average_pool},
    {"Dropout", dropout},
    {"Attention", attention},
};

}  // namespace

std::span<const NamedHandler> layer_handlers() { return handlers; }

}  // namespace troupe::graph::onnx
