#include "samples.h"

#include "function_samples.h"
#include "ops/loss.h"
#include "ops/primitives/batch_norm2d.h"
#include "ops/primitives/convolution2d.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/linear.h"
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
  sample.weights.push_back(Shape{o.out_channels, o.in_channels, o.kernel_h, o.kernel_w});
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
  };
}

std::vector<Sample> batch_norm2d() {
  const Shape images{3, 4, 3, 5};
  return {
      batch_norm("plain", images, {}, false),
      batch_norm("rows", {7, 3}, {}, false),
      batch_norm("relu", images, {.relu = true}, false),
      batch_norm("residual", images, {.relu = true}, true),
      batch_norm("dropout", images, {.relu = true, .dropout = 0.3f}, false),
      batch_norm("epsilon", images, {.epsilon = 0.1}, true),
      batch_norm("blocked", {2, 16, 2, 3}, {.relu = true, .dropout = 0.3f}, false),
      batch_norm("blocked_residual", {2, 16, 2, 3}, {.relu = true}, true),
      batch_norm("relu_of_sum", images, {.relu = true, .residual_first = true}, true),
      batch_norm("sum", images, {.residual_first = true}, true),
      batch_norm("blocked_relu_of_sum", {2, 16, 2, 3}, {.relu = true, .residual_first = true},
                 true),
  };
}

std::vector<Sample> linear() {
  const auto linear = [](const std::string& what, std::int64_t rows, const LinearOptions& o) {
    Sample sample{.name = "linear/" + what, .inputs = {Shape{rows, o.in_features}}, .record = {}};
    sample.weights.push_back(Shape{o.out_features, o.in_features});
    if (o.bias) sample.weights.push_back(Shape{o.out_features});
    sample.record = [o](Tape& tape, std::span<const Value> in, OwnedKernels& owned) {
      owned.kernels.push_back(tape.pass().kernels().linear(o));
      return tape.record(primitives::Linear{{owned.kernels.back().get(), {0}, bias_of(o)}, o},
                         in[0]);
    };
    return sample;
  };
  return {linear("biased", 5, {.in_features = 7, .out_features = 3}),
          linear("unbiased", 1, {.in_features = 3, .out_features = 9, .bias = false})};
}

std::vector<Sample> relu() {
  return {one_input("images", {2, 3, 5, 3}, primitives::Relu{}),
          one_input("blocked", {1, 16, 3, 2}, primitives::Relu{}),
          one_input("rows", {3, 7}, primitives::Relu{})};
}

std::vector<Sample> add() {
  const auto record = [](Tape& tape, std::span<const Value> in, OwnedKernels&) {
    return tape.record(primitives::Add{}, in[0], in[1]);
  };
  return {{.name = "add/images", .inputs = {{2, 3, 5, 3}, {2, 3, 5, 3}}, .record = record},
          {.name = "add/rows", .inputs = {{3, 7}, {3, 7}}, .record = record}};
}

std::vector<Sample> dropout() {
  return {one_input("images", {2, 3, 5, 3}, primitives::Dropout{0.3f, operation_id("dropout")}),
          one_input("blocked", {1, 16, 3, 2}, primitives::Dropout{0.3f, operation_id("dropout")}),
          one_input("rows", {3, 7}, primitives::Dropout{0.6f, operation_id("dropout")})};
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
    const double factor = *cast(grad, DType::f64).data<double>();
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
  for (const auto& samples :
       {convolution2d(), batch_norm2d(), linear(), relu(), add(), dropout(), max_pool2d(),
        average_pool2d(), adaptive_average_pool2d(), flatten(), reshape(), softmax_cross_entropy(),
        squared_error(), binary_cross_entropy()})
    all.insert(all.end(), samples.begin(), samples.end());
  return all;
}

}  // namespace troupe::testing_ops
