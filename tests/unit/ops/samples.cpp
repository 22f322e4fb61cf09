#include "samples.h"

#include "function_samples.h"
#include "ops/loss.h"
#include "ops/on_device.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/attention.h"
#include "ops/primitives/batch_norm2d.h"
#include "ops/primitives/convolution2d.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/embedding.h"
#include "ops/primitives/linear.h"
#include "ops/primitives/matmul.h"
#include "ops/primitives/movement.h"
#include "ops/primitives/parameter.h"
#include "ops/primitives/pooling.h"
#include "ops/primitives/reshape.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing_ops {
namespace {

/// Behind the weight, where the layer has one.
ParameterIndex bias_of(const auto& options) {
  return options.bias ? ParameterIndex{1} : ParameterIndex{};
}

Sample convolution(const std::string& what, const Shape& x, const ConvolutionOptions& o) {
  Sample sample{.name = "convolution2d/" + what, .inputs = {x}, .record = {}};
  sample.weights.push_back(weight_shape(o));
  if (o.bias) sample.weights.push_back(Shape{o.out_channels});
  sample.record = [o](Tape& tape, std::span<const Value> in, OwnedKernels& owned) {
    owned.kernels.push_back(tape.pass().kernels().convolution(o));
    return tape.record(primitives::Convolution2d{{owned.kernels.back().get(), {0}, bias_of(o)}, o},
                       in[0]);
  };
  return sample;
}

Sample batch_norm(const std::string& what, const Shape& x, primitives::BatchNorm2d norm,
                  bool residual) {
  const Shape channels{x[1]};
  Sample sample{.name = "batch_norm2d/" + what,
                .inputs = {x},
                .weights = {channels, channels},
                .buffers = {channels, channels},
                .record = {}};
  norm.weight = {0};
  norm.bias = {1};
  norm.running_mean = {0};
  norm.running_variance = {1};
  norm.dropout_operation = operation_id("block.dropout");
  if (residual) sample.inputs.push_back(x);
  sample.record = [norm, residual](Tape& tape, std::span<const Value> in, OwnedKernels&) {
    return residual ? tape.record(norm, in[0], in[1]) : tape.record(norm, in[0]);
  };
  return sample;
}

template <class Primitive>
Sample one_input(const std::string& what, const Shape& x, Primitive primitive) {
  return {.name = std::string(Primitive::name) + "/" + what,
          .inputs = {x},
          .record = [primitive](Tape& tape, std::span<const Value> in, OwnedKernels&) {
            return tape.record(primitive, in[0]);
          }};
}

std::vector<Sample> convolution2d() {
  ConvolutionOptions uneven{.in_channels = 2, .out_channels = 3, .kernel_h = 2, .kernel_w = 3};
  uneven.stride_h = 2;
  uneven.padding_h = 1;
  uneven.bias = false;
  return {
      convolution("same", {2, 3, 5, 7},
                  {.in_channels = 3, .out_channels = 4, .padding_h = 1, .padding_w = 1}),
      convolution("strided", {2, 2, 6, 7},
                  {.in_channels = 2, .out_channels = 3, .stride_h = 2, .stride_w = 3}),
      convolution("pointwise", {3, 5, 3, 3},
                  {.in_channels = 5, .out_channels = 2, .kernel_h = 1, .kernel_w = 1}),
      convolution("wide", {1, 1, 7, 6},
                  {.in_channels = 1,
                   .out_channels = 2,
                   .kernel_h = 5,
                   .kernel_w = 5,
                   .padding_h = 2,
                   .padding_w = 2}),
      convolution("padded", {2, 2, 1, 2},
                  {.in_channels = 2, .out_channels = 2, .padding_h = 2, .padding_w = 1}),
      convolution("uneven", {2, 2, 5, 4}, uneven),
      convolution("blocked", {1, 16, 3, 4},
                  {.in_channels = 16, .out_channels = 16, .padding_h = 1, .padding_w = 1}),
      convolution(
          "depthwise", {1, 16, 4, 3},
          {.in_channels = 16, .out_channels = 16, .padding_h = 1, .padding_w = 1, .groups = 16}),
      convolution("multiplied", {2, 3, 5, 4},
                  {.in_channels = 3, .out_channels = 6, .stride_h = 2, .groups = 3}),
      convolution("grouped", {2, 8, 3, 4},
                  {.in_channels = 8, .out_channels = 12, .groups = 4, .bias = false}),
      convolution(
          "dilated", {2, 2, 6, 7},
          {.in_channels = 2, .out_channels = 3, .padding_h = 1, .dilation_h = 2, .dilation_w = 3}),
  };
}

std::vector<Sample> batch_norm2d() {
  const Shape images{3, 4, 3, 5};
  return {
      batch_norm("plain", images, {}, false),
      batch_norm("rows", {7, 3}, {}, false),
      batch_norm("relu", images, {.relu = true}, false),
      batch_norm("residual", images, {.relu = true}, true),
      batch_norm("dropout", images, {.relu = true, .dropout = 0.3}, false),
      batch_norm("epsilon", images, {.epsilon = 0.1}, true),
      batch_norm("blocked", {2, 16, 2, 3}, {.relu = true, .dropout = 0.3}, false),
      batch_norm("blocked_residual", {2, 16, 2, 3}, {.relu = true}, true),
      batch_norm("relu_of_sum", images, {.relu = true, .residual_first = true}, true),
      batch_norm("sum", images, {.residual_first = true}, true),
      batch_norm("blocked_relu_of_sum", {2, 16, 2, 3}, {.relu = true, .residual_first = true},
                 true),
  };
}

std::vector<Sample> linear() {
  const auto linear = [](const std::string& what, const Shape& x, const LinearOptions& o) {
    Sample sample{.name = "linear/" + what, .inputs = {x}, .record = {}};
    sample.weights.push_back(Shape{o.out_features, o.in_features});
    if (o.bias) sample.weights.push_back(Shape{o.out_features});
    sample.record = [o](Tape& tape, std::span<const Value> in, OwnedKernels& owned) {
      owned.kernels.push_back(tape.pass().kernels().linear(o));
      return tape.record(primitives::Linear{{owned.kernels.back().get(), {0}, bias_of(o)}, o},
                         in[0]);
    };
    return sample;
  };
  return {linear("biased", {5, 7}, {.in_features = 7, .out_features = 3}),
          linear("unbiased", {1, 3}, {.in_features = 3, .out_features = 9, .bias = false}),
          linear("tokens", {2, 3, 5}, {.in_features = 5, .out_features = 4}),
          linear("images", {1, 16, 2, 4}, {.in_features = 4, .out_features = 3})};
}

std::vector<Sample> relu() {
  return {one_input("images", {2, 3, 5, 3}, primitives::Relu{}),
          one_input("blocked", {1, 16, 3, 2}, primitives::Relu{}),
          one_input("rows", {3, 7}, primitives::Relu{})};
}

std::vector<Sample> add() {
  const auto record = [](Tape& tape, std::span<const Value> in, OwnedKernels&) {
    return tape.record(primitives::Arithmetic{ArithmeticOperation::add}, in[0], in[1]);
  };
  return {{.name = "add/images", .inputs = {{2, 3, 5, 3}, {2, 3, 5, 3}}, .record = record},
          {.name = "add/rows", .inputs = {{3, 7}, {3, 7}}, .record = record}};
}

std::vector<Sample> dropout() {
  return {one_input("images", {2, 3, 5, 3}, primitives::Dropout{0.3, operation_id("dropout")}),
          one_input("blocked", {1, 16, 3, 2}, primitives::Dropout{0.3, operation_id("dropout")}),
          one_input("rows", {3, 7}, primitives::Dropout{0.6, operation_id("dropout")})};
}

std::vector<Sample> max_pool2d() {
  const PoolOptions overlapping{
      .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 1, .padding_h = 1, .padding_w = 1};
  return {one_input("halves", {2, 3, 5, 7}, primitives::MaxPool2d{PoolOptions{}}),
          one_input("overlapping", {2, 2, 5, 6}, primitives::MaxPool2d{overlapping}),
          one_input("blocked", {1, 16, 5, 4}, primitives::MaxPool2d{overlapping})};
}

std::vector<Sample> average_pool2d() {
  const PoolOptions overlapping{
      .kernel_h = 3, .kernel_w = 2, .stride_h = 2, .stride_w = 1, .padding_h = 1, .padding_w = 1};
  const PoolOptions global{.kernel_h = 7, .kernel_w = 7, .stride_h = 7, .stride_w = 7};
  return {one_input("global", {2, 3, 8, 7}, primitives::AveragePool2d{global}),
          one_input("overlapping", {2, 2, 5, 6}, primitives::AveragePool2d{overlapping}),
          one_input("blocked", {1, 16, 5, 4}, primitives::AveragePool2d{overlapping})};
}

std::vector<Sample> adaptive_average_pool2d() {
  return {one_input("one", {2, 3, 5, 7}, primitives::AdaptiveAveragePool2d{1, 1}),
          one_input("uneven", {2, 2, 7, 5}, primitives::AdaptiveAveragePool2d{3, 2}),
          one_input("larger", {1, 2, 2, 3}, primitives::AdaptiveAveragePool2d{3, 4}),
          one_input("blocked", {1, 16, 5, 4}, primitives::AdaptiveAveragePool2d{2, 3})};
}

std::vector<Sample> flatten() {
  return {one_input("images", {2, 3, 5, 3}, primitives::Flatten{}),
          one_input("blocked", {2, 16, 2, 3}, primitives::Flatten{}),
          one_input("pixels", {3, 16, 1, 1}, primitives::Flatten{})};
}

std::vector<Sample> reshape() {
  return {one_input("images", {2, 3, 5, 3}, primitives::Reshape{Shape{5, 18}})};
}

template <class Primitive>
Sample two_inputs(const std::string& what, const Shape& a, const Shape& b, Primitive primitive) {
  return {.name = std::string(Primitive::name) + "/" + what,
          .inputs = {a, b},
          .record = [primitive](Tape& tape, std::span<const Value> in, OwnedKernels&) {
            return tape.record(primitive, in[0], in[1]);
          }};
}

std::vector<Sample> matmul() {
  using primitives::Matmul;
  return {two_inputs("matrices", {3, 5}, {5, 4}, Matmul{}),
          two_inputs("batches", {2, 3, 4, 5}, {2, 3, 5, 2}, Matmul{}),
          two_inputs("broadcast", {2, 1, 3, 4}, {5, 4, 2}, Matmul{}),
          two_inputs("common", {2, 3, 4}, {4, 5}, Matmul{}),
          two_inputs("left_transposed", {2, 4, 3}, {4, 5}, Matmul{{.transposed_a = true}}),
          two_inputs("right_transposed", {2, 3, 4}, {2, 5, 4}, Matmul{{.transposed_b = true}}),
          two_inputs("both_transposed", {2, 4, 3}, {1, 5, 4}, Matmul{{true, true}})};
}

std::vector<Sample> movement() {
  using primitives::Expand, primitives::Permute, primitives::Slice;
  return {one_input("images", {2, 3, 4, 5}, Permute{{0, 2, 3, 1}}),
          one_input("heads", {2, 3, 4, 5}, Permute{{0, 2, 1, -1}}),
          one_input("blocked", {2, 16, 2, 1}, Permute{{3, 1, 0, 2}}),
          one_input("matrix", {5, 17}, Permute{{1, 0}}),
          one_input("channels", {2, 5, 3, 4}, Slice{1, 1, 3}),
          one_input("blocks", {1, 48, 1, 2}, Slice{-3, 16, 32}),
          one_input("parts_of_blocks", {1, 32, 2, 2}, Slice{1, 5, 16}),
          one_input("rows", {1, 16, 5, 2}, Slice{2, 3, 2}),
          one_input("samples", {5, 3, 2, 4}, Slice{0, 1, 3}),
          one_input("token", {2, 5, 3}, Slice{1, 0, 1}),
          one_input("samples", {1, 1, 5}, Expand{{3, 1, 5}}),
          one_input("outer", {2, 1}, Expand{{3, 2, 4}}),
          one_input("images", {1, 16, 1, 3}, Expand{{1, 16, 2, 3}}),
          one_input("same", {2, 3, 4, 5}, Expand{{2, 3, 4, 5}})};
}

std::vector<Sample> concatenate() {
  const auto concatenate = [](const std::string& what, std::vector<Shape> inputs, int axis) {
    return Sample{.name = "concatenate/" + what,
                  .inputs = std::move(inputs),
                  .record = [axis](Tape& tape, std::span<const Value> in, OwnedKernels&) {
                    return tape.record(primitives::Concatenate{axis}, in);
                  }};
  };
  return {concatenate("channels", {{2, 3, 2, 4}, {2, 1, 2, 4}, {2, 5, 2, 4}}, 1),
          concatenate("blocks", {{1, 16, 2, 1}, {1, 32, 2, 1}}, -3),
          concatenate("rows", {{1, 16, 2, 2}, {1, 16, 1, 2}, {1, 16, 2, 2}}, 2),
          concatenate("tokens", {{2, 1, 5}, {2, 3, 5}}, 1), concatenate("one", {{2, 3}}, 0)};
}

// A weight that two operations share, as a value.
std::vector<Sample> parameter() {
  return {{.name = "parameter/shared",
           .inputs = {{4, 3}},
           .weights = {{3, 5}},
           .record =
               [](Tape& tape, std::span<const Value> in, OwnedKernels&) {
                 const Value weight = tape.record(primitives::Parameter{{0}});
                 const Value y = tape.record(primitives::Matmul{}, in[0], weight);
                 return tape.record(primitives::Matmul{{.transposed_b = true}}, y, weight);
               }},
          {.name = "parameter/positions",
           .inputs = {{2, 3, 4}},
           .weights = {{1, 3, 4}},
           .record = [](Tape& tape, std::span<const Value> in, OwnedKernels&) {
             const Value table = tape.record(primitives::Parameter{{0}});
             const Value tables = tape.record(primitives::Expand{{2, 3, 4}}, table);
             return tape.record(primitives::Arithmetic{ArithmeticOperation::add}, in[0], tables);
           }}};
}

// Index 1 occurs twice, index 3 never.
std::vector<Sample> embedding() {
  const std::vector<std::int64_t> indices = {1, 4, 0, 2, 1, 2};
  const std::vector<double> as_numbers(indices.begin(), indices.end());
  const Tensor whole = Tensor::from<std::int64_t>(Shape{2, 3}, indices);
  const Tensor floating = Tensor::from<double>(Shape{2, 3}, as_numbers);
  return {{.name = "embedding/indices",
           .inputs = {{2, 3, 4}},
           .weights = {{5, 4}},
           .record =
               [whole](Tape& tape, std::span<const Value> in, OwnedKernels&) {
                 const Tensor indices = on_device(tape.pass().stream, whole);
                 const Value rows =
                     tape.record(primitives::Embedding{{0}}, tape.input(indices, false));
                 return tape.record(primitives::Arithmetic{ArithmeticOperation::add}, in[0], rows);
               }},
          {.name = "embedding/shared",
           .inputs = {{5, 4}},
           .record = [floating](Tape& tape, std::span<const Value> in, OwnedKernels&) {
             const Tensor numbers = cast(floating, tape.pass().dtype);
             const Value indices = tape.input(on_device(tape.pass().stream, numbers), false);
             return tape.record(primitives::Embedding{}, indices, in[0]);
           }}};
}

std::vector<Sample> attention() {
  const auto attention = [](const std::string& what, const Shape& q, const Shape& k, const Shape& v,
                            const primitives::Attention& primitive) {
    return Sample{.name = "attention/" + what,
                  .inputs = {q, k, v},
                  .record = [primitive](Tape& tape, std::span<const Value> in, OwnedKernels&) {
                    return tape.record(primitive, in[0], in[1], in[2]);
                  }};
  };
  const Shape heads{2, 3, 5, 4};
  return {attention("heads", heads, heads, heads, {}),
          attention("causal", heads, heads, heads, {.causal = true}),
          attention("scaled", {3, 2, 4}, {3, 5, 4}, {3, 5, 3}, {.scale = 0.7}),
          attention("fewer_keys", {2, 5, 4}, {2, 3, 4}, {2, 3, 2}, {.causal = true}),
          attention("masked", heads, heads, heads,
                    {.mask = uniform("attention/masked/mask", {2, 1, 5, 5})}),
          attention("mask_of_keys", {4, 3, 2}, {4, 6, 2}, {4, 6, 2},
                    {.causal = true, .mask = uniform("attention/mask_of_keys/mask", {6})})};
}

/// A loss as a part of a tape: a scalar, loss sum * scale.
template <LossKind kind>
struct LossOf {
  static constexpr std::string_view name = kind == LossKind::mse   ? "squared_error"
                                           : kind == LossKind::bce ? "binary_cross_entropy"
                                                                   : "softmax_cross_entropy";

  Tensor targets;
  double scale = 1.0;
  LossFunction loss = {.kind = kind};
  Tensor saved_logits = {};

  Tensor forward(const Pass& pass, const Tensor& logits) {
    saved_logits = logits;
    const LossOutput output = loss_of(pass.stream, loss, logits, targets, scale, true);
    const std::vector<double> loss = {read_totals(pass.stream, output).loss_sum * scale};
    return cast(Tensor::from<double>(Shape{}, loss), logits.dtype());
  }
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
    const double factor = *cast(on_cpu(pass.stream, grad), DType::f64).data<double>();
    inputs[0].grad =
        loss_of(pass.stream, loss, saved_logits, targets, scale * factor, true).logits_grad;
  }
  std::vector<Tensor> saved() const { return {saved_logits, targets}; }
};

std::vector<Sample> softmax_cross_entropy() {
  const std::vector<std::int64_t> classes = {3, 0, 6, 3, 1};
  const Tensor targets = Tensor::from<std::int64_t>(Shape{5}, classes);
  using Loss = LossOf<LossKind::cross_entropy>;
  std::vector<double> weights;
  for (int c = 0; c < 7; ++c) weights.push_back(0.5 + 0.25 * c);
  return {one_input("mean", {5, 7}, Loss{targets, 0.2}),
          one_input("sum", {5, 9}, Loss{targets, 1.0}),
          one_input("smoothed", {5, 7}, Loss{targets, 0.2, {.label_smoothing = 0.1}}),
          one_input("weighted", {5, 7}, Loss{targets, 0.2, {.class_weights = weights}}),
          one_input("weighted_smoothed", {5, 7},
                    Loss{targets, 0.2, {.label_smoothing = 0.1, .class_weights = weights}})};
}

std::vector<Sample> squared_error() {
  using Loss = LossOf<LossKind::mse>;
  return {one_input("rows", {5, 3}, Loss{uniform("squared_error/rows/targets", {5, 3}), 0.2}),
          one_input("one", {4, 1}, Loss{uniform("squared_error/one/targets", {4, 1}), 0.25})};
}

std::vector<Sample> binary_cross_entropy() {
  Tensor targets = uniform("binary_cross_entropy/rows/targets", {5, 3});
  for (double& target : targets.elements<double>()) target = 0.5 + 0.5 * target;
  return {one_input("rows", {5, 3}, LossOf<LossKind::bce>{targets, 0.2})};
}

}  // namespace

std::vector<Sample> all_samples() {
  std::vector<Sample> all = function_samples();
  for (const auto& samples : {convolution2d(),
                              batch_norm2d(),
                              linear(),
                              relu(),
                              add(),
                              dropout(),
                              max_pool2d(),
                              average_pool2d(),
                              adaptive_average_pool2d(),
                              flatten(),
                              reshape(),
                              softmax_cross_entropy(),
                              squared_error(),
                              binary_cross_entropy(),
                              matmul(),
                              movement(),
                              concatenate(),
                              parameter(),
                              embedding(),
                              attention()})
    all.insert(all.end(), samples.begin(), samples.end());
  return all;
}

}  // namespace troupe::testing_ops
