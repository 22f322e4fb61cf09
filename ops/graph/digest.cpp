// A graph as a text, for its digest.

#include "runtime/file/digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "ops/graph/steps.h"
#include "runtime/overloaded.h"

namespace troupe::graph {
namespace {

std::string text_of(const PoolOptions& o) {
  return fmt::format("{} {} {} {} {} {}", o.kernel_h, o.kernel_w, o.stride_h, o.stride_w,
                     o.padding_h, o.padding_w);
}

/// The members of an operator that its name does not tell.
std::string members(const Operator& operation) {
  return std::visit(
      Overloaded{[](const Convolution& o) {
                   const ConvolutionOptions& c = o.options;
                   return fmt::format("{} {} {} {} {} {} {}", c.stride_h, c.stride_w, c.padding_h,
                                      c.padding_w, c.dilation_h, c.dilation_w, c.groups);
                 },
                 [](const BatchNorm& o) {
                   return fmt::format("{} {} {}", o.epsilon, o.momentum, o.counter);
                 },
                 [](const LayerNorm& o) { return fmt::format("{} {}", o.features, o.epsilon); },
                 [](const Embedding& o) {
                   return o.padding_row < 0 ? "" : fmt::format("padding {}", o.padding_row);
                 },
                 [](const Clamp& o) { return fmt::format("{} {}", o.low, o.high); },
                 [](const Affine& o) { return fmt::format("{} {}", o.factor, o.offset); },
                 [](const Attention& o) {
                   const std::string dropout =
                       o.dropout == 0 ? "" : fmt::format(" dropout {}", o.dropout);
                   return fmt::format("{} {}{}", o.causal, o.scale, dropout);
                 },
                 [](const Softmax& o) { return fmt::format("{}", o.axis); },
                 [](const Reduce& o) {
                   return fmt::format("{} {}", fmt::join(o.axes, ","), o.keeps_axes);
                 },
                 [](const MaxPool& o) { return text_of(o.options); },
                 [](const AveragePool& o) { return text_of(o.options); },
                 [](const Permute& o) { return fmt::format("{}", fmt::join(o.axes, ",")); },
                 [](const Slice& o) { return fmt::format("{} {} {}", o.axis, o.start, o.count); },
                 [](const Concatenate& o) { return fmt::format("{}", o.axis); },
                 [](const Dropout& o) {
                   const std::string axes =
                       o.drawn_axes == 0 ? "" : fmt::format(" axes {}", o.drawn_axes);
                   return fmt::format("{}{}", o.probability, axes);
                 },
                 // Told by the name or by the shapes of values.
                 [](const OneOf<Linear, Relu, Activate, Arithmetic, Matmul, AdaptiveAveragePool,
                                Reshape, Expand> auto&) { return std::string(); }},
      operation);
}

constexpr std::size_t operator_digits = 48, literal_digits = 16;

std::set<std::string_view> constants_with_keys(const Graph& graph) {
  std::set<std::string_view> keys;
  for (const NamedTensor& constant : graph.constants) keys.insert(constant.name);
  return keys;
}

}  // namespace

std::string_view operators_in(std::string_view digest) { return digest.substr(0, operator_digits); }

std::vector<std::string> literals(const Graph& graph) {
  const std::set<std::string_view> keys = constants_with_keys(graph);
  std::vector<std::string> names;
  for (const Value& value : graph.values)
    if (value.constant.defined() && !keys.contains(value.name)) names.push_back(value.name);
  return names;
}

std::string digest(const Graph& graph) {
  const std::set<std::string_view> keys = constants_with_keys(graph);
  std::string text, values;
  for (const Value& value : graph.values) {
    const bool named = value.kind == Value::Kind::parameter || value.kind == Value::Kind::buffer ||
                       (value.constant.defined() && keys.contains(value.name));
    text += fmt::format("{} {} {} {}\n", static_cast<int>(value.kind), to_string(value.shape),
                        named ? value.name : "", value.trainable);
    if (value.constant.defined() && !named)
      values += troupe::digest({{"constant", value.constant}});
  }
  for (const Node& node : graph.nodes) {
    text += fmt::format("{} {} ->{}:", name_of(node.operation), members(node.operation),
                        node.output.index);
    for (const ValueId input : node.inputs) text += fmt::format(" {}", input.index);
    text += '\n';
  }
  for (const auto& [node, path] : dropout_paths(graph))  // a dropout elsewhere draws other numbers
    text += fmt::format("dropout {}: {}\n", node, path);
  text += fmt::format("{} -> {}\n", graph.input.index, graph.output.index);
  return text_digest(text).substr(0, operator_digits) +
         text_digest(values).substr(0, literal_digits);
}

}  // namespace troupe::graph
