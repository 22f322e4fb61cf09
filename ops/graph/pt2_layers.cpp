#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "ops/graph/compositions.h"
#include "ops/graph/pt2_operators.h"
#include "ops/graph/shapes.h"
#include "runtime/error.h"

namespace troupe::graph {
namespace {

constexpr std::int64_t most_pixels = 1 << 20;  // of a window, its stride and its padding

struct Pair {
  std::int64_t h = 0, w = 0;
};

/// Whether the operator is one of sequences, such as conv1d.
bool is_of_sequences(const Pt2Node& node) { return node.target().find("1d") != std::string::npos; }

/// Height and width of an argument that may be one number for both. Sequences have the height 1.
Pair pair(const Pt2Node& node, std::string_view name, std::vector<std::int64_t> otherwise) {
  std::vector<std::int64_t> numbers = node.integers(name, otherwise);
  if (numbers.empty()) numbers = std::move(otherwise);
  if (is_of_sequences(node) && numbers.size() == 1)
    numbers.insert(numbers.begin(), name == "padding" ? 0 : 1);
  if (numbers.size() == 1) numbers.push_back(numbers.front());
  if (numbers.size() != 2)
    node.json().fail(fmt::format("'{}' has {} numbers, not two", name, numbers.size()));
  for (const std::int64_t number : numbers)
    if (number < 0 || number > most_pixels)
      node.json().fail(fmt::format("'{}' is {}; 0 to {} is possible", name, number, most_pixels));
  return {numbers[0], numbers[1]};
}

void check_images(const Pt2Node& node, ValueId x) {
  if (node.shape(x).size() != 4 || !has_batch_axis(node.shape(x)))
    throw LacksOperator{
        fmt::format("it takes [batch, channels, height, width], not {}", to_string(node.shape(x)))};
}

/// The input of a layer of images, or that of a layer of sequences as images.
ValueId images_of(const Pt2Node& node, ValueId x) {
  if (!is_of_sequences(node)) return check_images(node, x), x;
  if (!are_sequences(node.shape(x)))
    throw LacksOperator{
        fmt::format("it takes [batch, channels, steps], not {}", to_string(node.shape(x)))};
  return node.add(Reshape{as_images(node.shape(x))}, {x});
}

/// Gives the result of such a layer.
void give_images(const Pt2Node& node, ValueId y) {
  node.give(is_of_sequences(node) ? node.add(Reshape{as_sequences(node.shape(y))}, {y}) : y);
}

AddNode adder(const Pt2Node& node) {
  return [&node](Operator operation, std::vector<ValueId> inputs) {
    return node.add(std::move(operation), std::move(inputs));
  };
}

/// A weight that is a parameter itself.
Sizes parameter(const Pt2Node& node, ValueId weight) {
  if (node.context().builder.graph.value(weight).kind != Value::Kind::parameter)
    throw LacksOperator{"its weight is computed, no parameter"};
  return node.shape(weight);
}

/// padding="same": as much on both sides.
Pair same_padding(const ConvolutionOptions& o) {
  const std::int64_t h = o.dilation_h * (o.kernel_h - 1), w = o.dilation_w * (o.kernel_w - 1);
  if (h % 2 != 0 || w % 2 != 0)
    throw LacksOperator{"padding=\"same\" of a kernel with an even size pads one side more"};
  return {h / 2, w / 2};
}

void convolution(const Pt2Node& node) {
  const ValueId weight = node.value("weight"), bias = node.optional_value("bias");
  Sizes sizes = parameter(node, weight);
  const std::size_t axes = is_of_sequences(node) ? 3 : 4;
  if (sizes.size() != axes)
    node.json().fail(fmt::format("its weight is {}, not of {} axes", to_string(sizes), axes));
  if (axes == 3) sizes = as_images(sizes);
  if (bias.index >= 0) parameter(node, bias);
  ConvolutionOptions o;
  o.groups = node.integer("groups", 1);
  if (o.groups < 1 || o.groups > sizes[0].fixed)
    node.json().fail(fmt::format("'groups' is {}", o.groups));
  o.out_channels = sizes[0].fixed;
  o.in_channels = product(Sizes{sizes[1], fixed(o.groups)}).fixed;
  o.kernel_h = sizes[2].fixed, o.kernel_w = sizes[3].fixed;
  if (o.kernel_h > most_pixels || o.kernel_w > most_pixels)
    node.json().fail(fmt::format("its kernel of {} is too large", to_string(sizes)));
  const Pair stride = pair(node, "stride", {1}), dilation = pair(node, "dilation", {1});
  o.stride_h = stride.h, o.stride_w = stride.w;
  o.dilation_h = dilation.h, o.dilation_w = dilation.w;
  o.bias = bias.index >= 0;
  Pair padding{0, 0};
  if (node.target().ends_with(".padding"))
    padding = node.text("padding", "valid") == "same" ? same_padding(o) : Pair{0, 0};
  else
    padding = pair(node, "padding", {0});
  o.padding_h = padding.h, o.padding_w = padding.w;
  std::vector<ValueId> inputs{images_of(node, node.value("input")), weight};
  if (o.bias) inputs.push_back(bias);
  give_images(node, node.add(Convolution{o}, inputs));
}

void linear(const Pt2Node& node) {
  std::vector<ValueId> inputs{node.value("input"), node.value("weight")};
  if (const ValueId bias = node.optional_value("bias"); bias.index >= 0) inputs.push_back(bias);
  node.give(node.add(Linear{}, inputs));
}

void batch_norm(const Pt2Node& node) {
  if (!node.boolean("training", false)) throw LacksOperator{evaluation_mode, torch_export_line};
  ValueId x = node.value("input");
  const bool sequences = are_sequences(node.shape(x));
  if (!sequences && node.shape(x).size() != 2) check_images(node, x);
  if (!has_batch_axis(node.shape(x)))
    throw LacksOperator{
        fmt::format("it takes [batch, features] or [batch, channels, steps], not {}",
                    to_string(node.shape(x)))};
  if (!node.has("weight") || !node.has("bias"))
    throw LacksOperator{"it has no weight and bias (affine=False)"};
  const ValueId weight = node.value("weight"), bias = node.value("bias");
  parameter(node, weight);
  parameter(node, bias);
  const Sizes shape = node.shape(x);
  if (sequences) x = node.add(Reshape{as_images(shape)}, {x});
  const ValueId y = node.add(
      BatchNorm{.epsilon = node.number("eps", 1e-5), .momentum = node.number("momentum", 0.1)},
      {x, weight, bias, node.buffer("running_mean"), node.buffer("running_var")});
  node.give(sequences ? node.add(Reshape{shape}, {y}) : y);
}

void layer_norm(const Pt2Node& node) {
  std::int64_t features = 1;
  for (const std::int64_t size : node.integers("normalized_shape", {}))
    features = product(Sizes{fixed(features), fixed(size)}).fixed;
  std::vector<ValueId> inputs{node.value("input"), node.optional_value("weight"),
                              node.optional_value("bias")};
  for (std::size_t i = 1; i < 3; ++i)
    if (inputs[i].index >= 0) parameter(node, inputs[i]);
  while (inputs.back().index < 0) inputs.pop_back();
  node.give(node.add(LayerNorm{.features = features, .epsilon = node.number("eps", 1e-5)}, inputs));
}

void rms_norm(const Pt2Node& node) {
  const ValueId x = node.value("input");
  node.give(add_rms_norm(
      adder(node), x, node.shape(x), node.integers("normalized_shape", {}).size(),
      node.number("eps", std::numeric_limits<float>::epsilon()), node.optional_value("weight")));
}

void group_norm(const Pt2Node& node) {
  const ValueId x = node.value("input");
  node.give(add_group_norm(adder(node), x, node.shape(x), node.integer("num_groups"),
                           node.number("eps", 1e-5), node.optional_value("weight"),
                           node.optional_value("bias")));
}

void instance_norm(const Pt2Node& node) {
  if (!node.boolean("use_input_stats", true) || node.has("running_mean"))
    throw LacksOperator{"it keeps running statistics (track_running_stats=True)"};
  const ValueId x = node.value("input");
  const Sizes shape = node.shape(x);
  node.give(add_group_norm(adder(node), x, shape, shape.size() > 1 ? shape[1].fixed : 0,
                           node.number("eps", 1e-5), node.optional_value("weight"),
                           node.optional_value("bias")));
}

bool has_exact_windows(const Sizes& shape, const PoolOptions& o) {
  return (shape[2].fixed + 2 * o.padding_h - o.kernel_h) % o.stride_h == 0 &&
         (shape[3].fixed + 2 * o.padding_w - o.kernel_w) % o.stride_w == 0;
}

PoolOptions pool_options(const Pt2Node& node) {
  const Pair kernel = pair(node, "kernel_size", {1});
  const Pair stride = pair(node, "stride", {kernel.h, kernel.w});
  const Pair padding = pair(node, "padding", {0});
  if (stride.h < 1 || stride.w < 1) node.json().fail("'stride' is not positive");
  return {.kernel_h = kernel.h,
          .kernel_w = kernel.w,
          .stride_h = stride.h,
          .stride_w = stride.w,
          .padding_h = padding.h,
          .padding_w = padding.w};
}

void max_pool(const Pt2Node& node) {
  const Pair dilation = pair(node, "dilation", {1});
  if (dilation.h != 1 || dilation.w != 1) throw LacksOperator{"its dilation is not 1"};
  const ValueId x = images_of(node, node.value("self"));
  const PoolOptions options = pool_options(node);
  if (node.boolean("ceil_mode", false))
    return give_images(node, add_ceil_max_pool(adder(node), x, node.shape(x), options));
  give_images(node, node.add(MaxPool{options}, {x}));
}

void average_pool(const Pt2Node& node) {
  const ValueId x = images_of(node, node.value("self"));
  const PoolOptions options = pool_options(node);
  if (node.boolean("ceil_mode", false) && !has_exact_windows(node.shape(x), options))
    throw LacksOperator{"ceil_mode=True with windows that reach beyond the image"};
  const bool padded = options.padding_h != 0 || options.padding_w != 0;
  if (padded && !node.boolean("count_include_pad", true))
    throw LacksOperator{"count_include_pad=False"};
  if (node.has("divisor_override")) throw LacksOperator{"divisor_override"};
  give_images(node, node.add(AveragePool{options}, {x}));
}

void adaptive_average_pool(const Pt2Node& node) {
  const ValueId x = images_of(node, node.value("self"));
  const Pair size = pair(node, "output_size", {1});
  give_images(node, node.add(AdaptiveAveragePool{size.h, size.w}, {x}));
}

void embedding(const Pt2Node& node) {
  if (node.boolean("scale_grad_by_freq", false)) throw LacksOperator{"scale_grad_by_freq=True"};
  const ValueId weight = node.value("weight");
  const Sizes& sizes = parameter(node, weight);
  const std::int64_t padding = node.integer("padding_idx", -1);
  if (padding < -1 || sizes.empty() || padding >= sizes[0].fixed)
    node.json().fail(
        fmt::format("its padding_idx is {}, but the weight is {}", padding, to_string(sizes)));
  node.give(node.add(Embedding{padding}, {weight, node.value("indices")}));
}

/// Indices into `rows` rows, counted from the front.
Tensor counted_from_front(const Pt2Node& node, const Value& indices, std::int64_t rows) {
  Tensor result = indices.constant.clone();
  const auto count = [&](auto& index) {
    if (index < 0) index += static_cast<std::remove_reference_t<decltype(index)>>(rows);
    if (!(index >= 0 && index < static_cast<std::remove_reference_t<decltype(index)>>(rows)))
      node.json().fail(fmt::format("an index lies outside of {} rows", rows));
  };
  if (result.dtype() == DType::i64)
    std::ranges::for_each(result.elements<std::int64_t>(), count);
  else
    std::ranges::for_each(result.elements<double>(), count);
  return result;
}

/// Rows by a constant, table[indices], as an embedding looks them up.
void index(const Pt2Node& node) {
  const std::vector<ValueId> indices = node.optional_values("indices");
  const auto& graph = node.context().builder.graph;
  if (indices.size() != 1 || indices[0].index < 0)
    throw LacksOperator{"it indexes another axis than the first, or several"};
  const Value known = graph.value(indices[0]);  // a copy: entering a value moves the others
  if (known.kind != Value::Kind::constant || known.dtype == DType::boolean)
    throw LacksOperator{"its indices are not constant"};
  const ValueId x = node.value("self");
  const Sizes shape = node.shape(x);
  if (shape.empty() || !is_fixed(product(shape)))
    throw LacksOperator{std::string(combines_samples)};
  const Sizes features = {fixed(product(std::span(shape).subspan(1)).fixed)};
  Sizes result = known.shape;
  result.insert(result.end(), shape.begin() + 1, shape.end());
  const ValueId rows =
      node.context().constant(node.origin().name, counted_from_front(node, known, shape[0].fixed));
  const ValueId table = shape.size() == 2 ? x : node.add(Reshape{{shape[0], features[0]}}, {x});
  const ValueId found = node.add(Embedding{}, {table, rows});
  node.give(shape.size() == 2 ? found : node.add(Reshape{result}, {found}));
}

}  // namespace

void add_layers(Pt2Handlers& handlers) {
  handlers["conv1d.default"] = handlers["conv1d.padding"] = convolution;
  handlers["conv2d.default"] = handlers["conv2d.padding"] = convolution;
  handlers["linear.default"] = linear;
  handlers["batch_norm.default"] = batch_norm;
  handlers["layer_norm.default"] = layer_norm;
  handlers["rms_norm.default"] = rms_norm;
  handlers["group_norm.default"] = group_norm;
  handlers["instance_norm.default"] = instance_norm;
  handlers["max_pool1d.default"] = handlers["max_pool2d.default"] = max_pool;
  handlers["avg_pool1d.default"] = handlers["avg_pool2d.default"] = average_pool;
  handlers["adaptive_avg_pool1d.default"] = adaptive_average_pool;
  handlers["adaptive_avg_pool2d.default"] = adaptive_average_pool;
  handlers["embedding.default"] = embedding;
  handlers["index.Tensor"] = index;
}

}  // namespace troupe::graph
