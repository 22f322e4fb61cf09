#include "ops/graph/recorder.h"

#include <fmt/format.h>

#include "ops/graph/shapes.h"
#include "ops/on_device.h"
#include "ops/primitives/activation.h"
#include "ops/primitives/arithmetic.h"
#include "ops/primitives/batch_norm2d.h"
#include "ops/primitives/convolution2d.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/embedding.h"
#include "ops/primitives/layer_norm.h"
#include "ops/primitives/linear.h"
#include "ops/primitives/matmul.h"
#include "ops/primitives/movement.h"
#include "ops/primitives/parameter.h"
#include "ops/primitives/pooling.h"
#include "ops/primitives/reduction.h"
#include "ops/primitives/reshape.h"
#include "ops/primitives/softmax.h"
#include "runtime/error.h"
#include "runtime/overloaded.h"
#include "runtime/tensor/cast.h"

namespace troupe::graph {
namespace {

/// A constant as numbers of the pass.
Tensor in_precision(const Tensor& constant, DType dtype) {
  if (is_floating(constant.dtype())) return cast(constant, dtype);
  Tensor numbers = Tensor::empty(constant.shape(), DType::f64, Device::cpu());
  for (std::int64_t e = 0; e < numbers.element_count(); ++e)
    numbers.data<double>()[e] = static_cast<double>(constant.data<std::int64_t>()[e]);
  return cast(numbers, dtype);
}

}  // namespace

Recorder::Recorder(BlockModule& block, Tape& tape, troupe::Value x)
    : block_(block), graph_(*block.graph_), tape_(tape), samples_(tape.tensor(x).dim(0)) {
  values_.emplace(block.block_.input, x);
}

troupe::Value Recorder::run() {
  for (const Step& step : block_.block_.steps) values_.insert_or_assign(step.output, record(step));
  return value(block_.block_.output);
}

Tensor Recorder::constant(ValueId id) {
  Tensor& kept = block_.constants_[id];
  if (!kept.defined()) kept = lasting(graph_.value(id).constant);
  return kept;
}

Tensor Recorder::lasting(const Tensor& numbers) const {
  const LastingScope scope;
  return on_device(tape_.pass().stream, in_precision(numbers, tape_.pass().dtype));
}

troupe::Value Recorder::value(ValueId id) {
  if (const auto known = values_.find(id); known != values_.end()) return known->second;
  const Value& value = graph_.value(id);
  if (value.kind == Value::Kind::parameter)
    return values_[id] = tape_.record(primitives::Parameter{block_.parameters_.at(id)});
  if (value.kind != Value::Kind::constant)
    throw Error(ErrorCode::internal,
                fmt::format("{}: no step makes {}", block_.path(), value.name));
  return values_[id] = tape_.input(constant(id), false);
}

ParameterIndex Recorder::parameter(const Node& node, std::size_t i) const {
  return has(node, i) ? block_.parameters_.at(node.inputs[i]) : ParameterIndex{};
}

LayerKernel& Recorder::kernel(std::size_t node, const auto& make) {
  auto& kept = block_.kernels_[node];
  if (!kept) kept = make(tape_.pass().kernels());
  return *kept;
}

troupe::Value Recorder::convolution(const Step& step, const Node& node,
                                    ConvolutionOptions options) {
  options.algorithm = block_.options_.convolution;
  LayerKernel& layer =
      kernel(step.node, [&](const KernelTable& table) { return table.convolution(options); });
  return tape_.record(
      primitives::Convolution2d{{&layer, parameter(node, 1), parameter(node, 2)}, options},
      input(node, 0));
}

/// A weight that other operations read too, or that is computed, is an operand of a product.
troupe::Value Recorder::linear(const Step& step, const Node& node) {
  const bool own =
      block_.is_own(node.inputs[1]) && (!has(node, 2) || block_.is_own(node.inputs[2]));
  const troupe::Value x = input(node, 0);
  if (!own) {
    const troupe::Value y =
        tape_.record(primitives::Matmul{{.transposed_b = true}}, x, input(node, 1));
    if (!has(node, 2)) return y;
    return tape_.record(primitives::Arithmetic{ArithmeticOperation::add}, y, input(node, 2));
  }
  const Sizes& weight = graph_.value(node.inputs[1]).shape;
  const LinearOptions options{
      .in_features = weight[1].fixed, .out_features = weight[0].fixed, .bias = has(node, 2)};
  LayerKernel& layer =
      kernel(step.node, [&](const KernelTable& table) { return table.linear(options); });
  return tape_.record(primitives::Linear{{&layer, parameter(node, 1), parameter(node, 2)}, options},
                      x);
}

troupe::Value Recorder::batch_norm(const Step& step, const Node& node, const BatchNorm& options) {
  const bool has_residual = step.residual.index >= 0;
  const primitives::BatchNorm2d norm{
      .weight = parameter(node, 1),
      .bias = parameter(node, 2),
      .running_mean = block_.buffers_.at(node.inputs[3]),
      .running_variance = block_.buffers_.at(node.inputs[4]),
      .epsilon = options.epsilon,
      .relu = step.relu,
      .residual_first = has_residual,
      .dropout = step.dropout,
      .dropout_operation = step.dropout > 0 ? operation_id(step.dropout_path) : 0};
  if (!has_residual) return tape_.record(norm, input(node, 0));
  return tape_.record(norm, input(node, 0), value(step.residual));
}

troupe::Value Recorder::embedding(const Node& node, const Embedding& options) {
  primitives::Embedding embedding{.padding_row = options.padding_row};
  if (!block_.is_own(node.inputs[0]))
    return tape_.record(std::move(embedding), input(node, 1), input(node, 0));
  embedding.weight = parameter(node, 0);
  return tape_.record(std::move(embedding), input(node, 1));
}

troupe::Value Recorder::concatenation(const Node& node, int axis) {
  std::vector<troupe::Value> parts;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) parts.push_back(input(node, i));
  return tape_.record(primitives::Concatenate{axis}, std::span<const troupe::Value>(parts));
}

troupe::Value Recorder::record(const Step& step) {
  const Node& node = graph_.nodes[step.node];
  const auto one = [&](auto primitive) {
    return tape_.record(std::move(primitive), input(node, 0));
  };
  const auto two = [&](auto primitive) {
    return tape_.record(std::move(primitive), input(node, 0), input(node, 1));
  };
  return std::visit(
      Overloaded{
          [&](const Convolution& o) { return convolution(step, node, o.options); },
          [&](const Linear&) { return linear(step, node); },
          [&](const BatchNorm& o) { return batch_norm(step, node, o); },
          [&](const LayerNorm& o) {
            return one(primitives::LayerNorm{.weight = parameter(node, 1),
                                             .bias = parameter(node, 2),
                                             .features = o.features,
                                             .epsilon = o.epsilon});
          },
          [&](const Embedding& o) { return embedding(node, o); },
          [&](const Relu&) { return one(primitives::Relu{}); },
          [&](const Activate& o) { return one(primitives::Activate{o.function}); },
          [&](const Clamp& o) {
            return one(primitives::Clamp{o.low, o.high});
          },
          [&](const Arithmetic& o) { return two(primitives::Arithmetic{o.operation}); },
          [&](const Affine& o) {
            return one(primitives::Affine{o.factor, o.offset});
          },
          [&](const Matmul&) { return two(primitives::Matmul{}); },
          [&](const Attention& o) { return attention(step, node, o); },
          [&](const Softmax& o) {
            return one(primitives::Softmax{o.axis, o.logarithm});
          },
          [&](const Reduce& o) {
            return one(primitives::Reduce{o.axes, o.keeps_axes, o.mean});
          },
          [&](const MaxPool& o) { return one(primitives::MaxPool2d{o.options}); },
          [&](const AveragePool& o) { return one(primitives::AveragePool2d{o.options}); },
          [&](const AdaptiveAveragePool& o) {
            return one(primitives::AdaptiveAveragePool2d{o.out_h, o.out_w});
          },
          [&](const Reshape& o) { return one(primitives::Reshape{shape_for(o.shape, samples_)}); },
          [&](const Expand& o) { return one(primitives::Expand{shape_for(o.shape, samples_)}); },
          [&](const Permute& o) { return one(primitives::Permute{o.axes}); },
          [&](const Slice& o) {
            return one(primitives::Slice{o.axis, o.start, o.count});
          },
          [&](const Concatenate& o) { return concatenation(node, o.axis); },
          [&](const Dropout& o) { return dropout(step, node, o); }},
      node.operation);
}

}  // namespace troupe::graph
