#include "ops/nn/layers.h"

#include <fmt/format.h>

#include "ops/primitives/arithmetic.h"
#include "ops/primitives/batch_norm2d.h"
#include "ops/primitives/convolution2d.h"
#include "ops/primitives/linear.h"
#include "runtime/error.h"

namespace troupe::nn {
namespace {

// PyTorch's reset_parameters of Conv2d and Linear: kaiming_uniform_(a = sqrt(5)), which is this.
Initializer fan_in_uniform(std::int64_t fan_in) {
  return {Initializer::Kind::uniform, 1.0 / std::sqrt(static_cast<double>(fan_in))};
}

// PyTorch's kaiming_normal_(mode="fan_out", nonlinearity="relu").
Initializer he_normal(std::int64_t fan_out) {
  return {Initializer::Kind::normal, std::sqrt(2.0 / static_cast<double>(fan_out))};
}

Initializer constant(double value) { return {Initializer::Kind::constant, value}; }

void check_probability(const std::string& path, double probability) {
  if (probability >= 0.0 && probability < 1.0) return;
  throw Error(ErrorCode::bad_options, fmt::format("{}: dropout is {}", path, probability),
              "give a probability in [0, 1)");
}

void check_positive(const std::string& path, std::string_view what, std::int64_t value) {
  if (value > 0) return;
  throw Error(ErrorCode::bad_options, fmt::format("{}: {} is {}", path, what, value),
              "give a positive number");
}

}  // namespace

Conv2d::Conv2d(std::string path, ConvolutionOptions options, ConvolutionStart start)
    : Module(std::move(path)), options_(options), start_(start) {
  check_positive(this->path(), "in_channels", options_.in_channels);
  check_positive(this->path(), "out_channels", options_.out_channels);
  check_positive(this->path(), "kernel", std::min(options_.kernel_h, options_.kernel_w));
  check_positive(this->path(), "stride", std::min(options_.stride_h, options_.stride_w));
  check_positive(this->path(), "padding + 1", 1 + std::min(options_.padding_h, options_.padding_w));
  check_positive(this->path(), "dilation", std::min(options_.dilation_h, options_.dilation_w));
  check_positive(this->path(), "groups", options_.groups);
  if (options_.in_channels % options_.groups != 0 || options_.out_channels % options_.groups != 0)
    throw Error(ErrorCode::bad_options,
                fmt::format("{}: {} groups of {} input and {} output channels", this->path(),
                            options_.groups, options_.in_channels, options_.out_channels),
                "both numbers of channels must be multiples of the number of groups");
}

void Conv2d::declare(StateSpec& spec) {
  const Shape shape = weight_shape(options_);
  const std::int64_t window = options_.kernel_h * options_.kernel_w;
  const Initializer uniform = fan_in_uniform(shape[1] * window);
  weight_ = spec.add_parameter(
      path() + ".weight", shape,
      start_ == ConvolutionStart::he_normal ? he_normal(options_.out_channels * window) : uniform);
  if (options_.bias)
    bias_ = spec.add_parameter(path() + ".bias", Shape{options_.out_channels}, uniform);
}

Value Conv2d::forward(Tape& tape, Value x) {
  if (!kernel_) kernel_ = tape.pass().kernels().convolution(options_);
  return tape.record(primitives::Convolution2d{{kernel_.get(), weight_, bias_}, options_}, x);
}

Linear::Linear(std::string path, LinearOptions options)
    : Module(std::move(path)), options_(options) {
  check_positive(this->path(), "in_features", options_.in_features);
  check_positive(this->path(), "out_features", options_.out_features);
}

void Linear::declare(StateSpec& spec) {
  const Initializer initializer = fan_in_uniform(options_.in_features);
  weight_ = spec.add_parameter(path() + ".weight",
                               Shape{options_.out_features, options_.in_features}, initializer);
  if (options_.bias)
    bias_ = spec.add_parameter(path() + ".bias", Shape{options_.out_features}, initializer);
}

Value Linear::forward(Tape& tape, Value x) {
  if (!kernel_) kernel_ = tape.pass().kernels().linear(options_);
  return tape.record(primitives::Linear{{kernel_.get(), weight_, bias_}, options_}, x);
}

BatchNorm2d::BatchNorm2d(std::string path, BatchNormOptions options)
    : Module(std::move(path)), options_(std::move(options)) {
  check_positive(this->path(), "features", options_.features);
  check_probability(this->path(), options_.dropout);
}

void BatchNorm2d::declare(StateSpec& spec) {
  const Shape shape{options_.features};
  weight_ = spec.add_parameter(path() + ".weight", shape, constant(1.0));
  bias_ = spec.add_parameter(path() + ".bias", shape, constant(0.0));
  running_mean_ = spec.add_buffer(path() + ".running_mean", shape, 0.0, options_.momentum);
  running_variance_ = spec.add_buffer(path() + ".running_var", shape, 1.0, options_.momentum);
  spec.add_counter(path() + ".num_batches_tracked");
}

Value BatchNorm2d::forward(Tape& tape, Value x) { return forward(tape, x, Value{}); }

Value BatchNorm2d::forward(Tape& tape, Value x, Value residual) {
  const bool has_residual = residual.index >= 0;
  const bool fused_dropout = options_.relu && !has_residual;
  const bool residual_first = has_residual && options_.residual_first;
  const primitives::Dropout dropout{options_.dropout, operation_id(options_.dropout_path)};
  const primitives::BatchNorm2d norm{.weight = weight_,
                                     .bias = bias_,
                                     .running_mean = running_mean_,
                                     .running_variance = running_variance_,
                                     .epsilon = options_.epsilon,
                                     .relu = options_.relu,
                                     .residual_first = residual_first,
                                     .dropout = fused_dropout ? dropout.probability : 0.0,
                                     .dropout_operation = dropout.operation};
  if (fused_dropout || dropout.probability == 0.0)
    return has_residual ? tape.record(norm, x, residual) : tape.record(norm, x);
  if (residual_first) return tape.record(dropout, tape.record(norm, x, residual));
  const Value dropped = tape.record(dropout, tape.record(norm, x));
  return has_residual
             ? tape.record(primitives::Arithmetic{ArithmeticOperation::add}, dropped, residual)
             : dropped;
}

Dropout::Dropout(std::string path, DropoutOptions options)
    : Module(std::move(path)), options_(options) {
  check_probability(this->path(), options_.probability);
}

Value Dropout::forward(Tape& tape, Value x) {
  return tape.record(primitives::Dropout{options_.probability, operation_id(path())}, x);
}

}  // namespace troupe::nn
