#include "ops/graph/block_module.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/graph/recorder.h"
#include "ops/graph/shapes.h"
#include "ops/primitives/reshape.h"
#include "runtime/error.h"

namespace troupe::graph {
namespace {

/// The axes behind the first one, multiplied: what an output of the layer sums over.
std::int64_t fan_in(const Sizes& weight) { return product(std::span(weight).subspan(1)).fixed; }

}  // namespace

BlockModule::BlockModule(std::shared_ptr<const Graph> graph, GraphBlock block,
                         const GraphModelOptions& options, bool first,
                         std::vector<std::string> untouched)
    : Module(block.path),
      graph_(std::move(graph)),
      block_(std::move(block)),
      options_(options),
      first_(first),
      untouched_(std::move(untouched)) {
  count_uses();
  check_shared();
}

void BlockModule::count_uses() {
  for (const Step& step : block_.steps)
    for (const ValueId input : step.inputs(*graph_))
      if (graph_->value(input).kind == Value::Kind::parameter ||
          graph_->value(input).kind == Value::Kind::buffer)
        ++uses_[input];
}

void BlockModule::check_shared() const {
  for (const Step& step : block_.steps) {
    const Node& node = node_of(step);
    const bool needs_own = std::holds_alternative<Convolution>(node.operation) ||
                           std::holds_alternative<BatchNorm>(node.operation) ||
                           std::holds_alternative<LayerNorm>(node.operation);
    for (std::size_t i = 1; needs_own && i < node.inputs.size(); ++i)
      if (node.inputs[i].index >= 0 && !is_own(node.inputs[i]))
        throw Error(ErrorCode::unsupported,
                    fmt::format("{} of {} ({}) shares {} with another layer, or is called twice",
                                name_of(node.operation), node.module, node.source,
                                graph_->value(node.inputs[i]).name),
                    "give each of these layers and calls parameters of its own; linear layers and "
                    "embeddings can share theirs");
  }
}

bool BlockModule::is_own(ValueId value) const {
  const auto uses = uses_.find(value);
  return uses != uses_.end() && uses->second == 1;
}

std::function<Tensor()> BlockModule::reader(const std::string& name) const {
  return [graph = graph_, name] { return graph->weights.read(name); };
}

bool BlockModule::is_attentions_output_bias(std::string_view name) const {
  constexpr std::string_view bias = "out_proj.bias";
  if (!name.ends_with(bias)) return false;
  const std::string sibling =
      std::string(name.substr(0, name.size() - bias.size())) + "in_proj_weight";
  return std::ranges::any_of(graph_->values,
                             [&](const Value& value) { return value.name == sibling; });
}

/// As PyTorch's reset_parameters of the layer. The projections of nn.MultiheadAttention are linear
/// layers with initial values of their own; their names tell them.
Initializer BlockModule::initializer_of(const Node& node, std::size_t input) const {
  const Value& value = graph_->value(node.inputs[input]);
  if (value.name.ends_with("in_proj_weight") && value.shape.size() == 2)  // Xavier
    return {Initializer::Kind::uniform,
            std::sqrt(6.0 / static_cast<double>(value.shape[0].fixed + value.shape[1].fixed))};
  if (value.name.ends_with("in_proj_bias") || is_attentions_output_bias(value.name))
    return {Initializer::Kind::constant, 0.0};
  const auto weight_fan_in = [&] { return fan_in(graph_->value(node.inputs[1]).shape); };
  if (std::holds_alternative<Convolution>(node.operation) ||
      std::holds_alternative<Linear>(node.operation))
    return {Initializer::Kind::uniform, 1.0 / std::sqrt(static_cast<double>(weight_fan_in()))};
  if (const auto* embedding = std::get_if<Embedding>(&node.operation)) {
    // PyTorch's new weight has zeroes in this row, which no optimizer step would bring about.
    if (options_.initialise && embedding->padding_row >= 0 && input == 0)
      throw Error(ErrorCode::unsupported,
                  fmt::format("{} has a padding_idx, which new weights do not have", value.name),
                  "set `FileModel::initialise` to false: the file has the weights");
    return {Initializer::Kind::normal, 1.0};
  }
  if (std::holds_alternative<BatchNorm>(node.operation) ||
      std::holds_alternative<LayerNorm>(node.operation))
    return {Initializer::Kind::constant, input == 1 ? 1.0 : 0.0};
  return {.kind = Initializer::Kind::given};
}

void BlockModule::declare_parameter(StateSpec& spec, ValueId id, const Initializer& initializer) {
  const Value& value = graph_->value(id);
  if (value.kind != Value::Kind::parameter || parameters_.contains(id)) return;
  Initializer start = initializer;
  if (!options_.initialise || start.kind == Initializer::Kind::given)
    start = {.kind = Initializer::Kind::given, .value = 0.0, .read = reader(value.name)};
  parameters_[id] =
      spec.add_parameter(value.name, shape_for(value.shape, 1), std::move(start), !value.trainable);
  for (const Alias& alias : graph_->aliases)
    if (alias.of == value.name) spec.add_alias(alias.name, parameters_[id]);
}

void BlockModule::declare_norm(StateSpec& spec, const Node& node) {
  const auto& norm = std::get<BatchNorm>(node.operation);
  for (const std::size_t input : {3, 4}) {
    const ValueId id = node.inputs[input];
    const Value& value = graph_->value(id);
    if (buffers_.contains(id)) continue;
    buffers_[id] =
        spec.add_buffer(value.name, shape_for(value.shape, 1), input == 3 ? 0.0 : 1.0,
                        norm.momentum, options_.initialise ? nullptr : reader(value.name));
  }
  if (!norm.counter.empty())
    spec.add_counter(norm.counter, options_.initialise ? nullptr : reader(norm.counter));
}

void BlockModule::declare(StateSpec& spec) {
  parameters_.clear();
  buffers_.clear();
  for (const Step& step : block_.steps) {
    const Node& node = node_of(step);
    for (std::size_t i = 0; i < node.inputs.size(); ++i)
      if (node.inputs[i].index >= 0)
        declare_parameter(spec, node.inputs[i], initializer_of(node, i));
    if (std::holds_alternative<BatchNorm>(node.operation)) declare_norm(spec, node);
  }
  if (first_) declare_constants(spec);
}

void BlockModule::declare_constants(StateSpec& spec) const {
  std::set<std::string_view> read;
  for (const Value& value : graph_->values)
    if (value.kind == Value::Kind::constant) read.insert(value.name);
  std::set<const void*> memory;  // of those that are read: tied constants have several names
  for (const auto& [name, tensor] : graph_->constants)
    if (read.contains(name)) memory.insert(tensor.raw());
  for (const auto& [name, tensor] : graph_->constants)
    spec.add_constant({name, tensor, graph_->folds_constants || memory.contains(tensor.raw())});
  for (const std::string& name : untouched_) {
    const Tensor tensor = graph_->weights.read(name);
    spec.add_constant({name, tensor, /*fixed=*/false});
    for (const Alias& alias : graph_->aliases)
      if (alias.of == name) spec.add_constant({alias.name, tensor, /*fixed=*/false});
  }
}

bool BlockModule::begins_with_convolution() const {
  return std::ranges::all_of(block_.steps, [this](const Step& step) {
    const std::vector<ValueId> inputs = step.inputs(*graph_);
    return std::ranges::find(inputs, block_.input) == inputs.end() ||
           std::holds_alternative<Convolution>(node_of(step).operation);
  });
}

troupe::Value BlockModule::forward(Tape& tape, troupe::Value x) {
  const Shape& given = tape.tensor(x).shape();
  const Sizes& wanted = graph_->value(block_.input).shape;
  if (first_ && given.rank() != static_cast<int>(wanted.size()))  // samples with one channel
    x = tape.record(primitives::Reshape{shape_for(wanted, given[0])}, x);
  return Recorder(*this, tape, x).run();
}

}  // namespace troupe::graph
