#include "ops/graph/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

namespace troupe::graph {
namespace {

std::size_t place(ValueId id) { return static_cast<std::size_t>(id.index); }

/// Joins nodes to the batch norms before them.
class Fusion {
 public:
  Fusion(const Graph& graph, ValueId output)
      : graph_(graph), output_(output), dropout_paths_(dropout_paths(graph)) {
    readers_.resize(graph.values.size());
    for (std::size_t n = 0; n < graph.nodes.size(); ++n)
      for (const ValueId input : graph.nodes[n].inputs)
        if (input.index >= 0) readers_[place(input)].push_back(n);
    ends_.resize(graph.nodes.size());
    joined_.resize(graph.nodes.size(), false);
  }

  std::vector<Step> steps() {
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n)
      if (std::holds_alternative<BatchNorm>(graph_.nodes[n].operation) && !joined_[n]) fuse(n);
    std::vector<Step> result;
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (ends_[n])
        result.push_back(*ends_[n]);  // where its last node was: a residual is ready there
      else if (!joined_[n])
        result.push_back(alone(n));
    }
    return result;
  }

 private:
  Step alone(std::size_t node) const {
    Step step{.node = node, .output = graph_.nodes[node].output};
    if (const auto path = dropout_paths_.find(node); path != dropout_paths_.end())
      step.dropout_path = path->second;
    return step;
  }

  /// The only node that reads the value, if it may be joined.
  std::optional<std::size_t> only_reader(ValueId value) const {
    const auto& readers = readers_[place(value)];
    if (value == output_ || readers.size() != 1 || joined_[readers[0]]) return std::nullopt;
    return readers[0];
  }

  void fuse(std::size_t norm) {
    Step step = alone(norm);
    std::size_t last = norm;
    const auto take = [&](std::size_t node) {
      joined_[last] = joined_[node] = true;
      last = node;
      step.output = graph_.nodes[node].output;
    };
    auto next = only_reader(step.output);
    if (next && is_sum(*next)) {
      const auto& inputs = graph_.nodes[*next].inputs;
      step.residual = inputs[0] == step.output ? inputs[1] : inputs[0];
      take(*next);
      next = only_reader(step.output);
    }
    if (next && std::holds_alternative<Relu>(graph_.nodes[*next].operation)) {
      step.relu = true;
      take(*next);
      next = only_reader(step.output);
      const auto* dropout = next ? std::get_if<Dropout>(&graph_.nodes[*next].operation) : nullptr;
      if (dropout && dropout->drawn_axes == 0 && step.residual.index < 0) {
        step.dropout = dropout->probability;
        step.dropout_path = dropout_paths_.at(*next);
        take(*next);
      }
    }
    ends_[last] = step;
    joined_[last] = true;
  }

  /// A sum of two different values of the same shape.
  bool is_sum(std::size_t node) const {
    const Node& sum = graph_.nodes[node];
    const auto* arithmetic = std::get_if<Arithmetic>(&sum.operation);
    return arithmetic && arithmetic->operation == ArithmeticOperation::add &&
           sum.inputs[0] != sum.inputs[1] &&
           graph_.value(sum.inputs[0]).shape == graph_.value(sum.inputs[1]).shape &&
           graph_.value(sum.inputs[0]).kind == Value::Kind::computed &&
           graph_.value(sum.inputs[1]).kind != Value::Kind::constant &&
           graph_.value(sum.inputs[1]).kind != Value::Kind::parameter;
  }

  const Graph& graph_;
  ValueId output_;
  std::map<std::size_t, std::string> dropout_paths_;
  std::vector<std::vector<std::size_t>> readers_;  ///< by value
  std::vector<std::optional<Step>> ends_;          ///< by the last node of a fused step
  std::vector<bool> joined_;
};

bool draws_numbers(const Operator& operation) {
  const auto* attention = std::get_if<Attention>(&operation);
  return std::holds_alternative<Dropout>(operation) || (attention && attention->dropout > 0);
}

}  // namespace

std::vector<ValueId> Step::inputs(const Graph& graph) const {
  std::vector<ValueId> result;
  for (const ValueId input : graph.nodes[node].inputs)
    if (input.index >= 0) result.push_back(input);
  if (residual.index >= 0) result.push_back(residual);
  return result;
}

std::vector<Step> steps_to(const Graph& graph, ValueId output) {
  return Fusion(graph, output).steps();
}

std::map<std::size_t, std::string> dropout_paths(const Graph& graph) {
  std::map<std::size_t, std::string> paths;
  std::set<std::string_view> modules{""};
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!draws_numbers(node.operation)) continue;
    const bool is_first = modules.insert(node.module).second;
    paths[n] = is_first              ? node.module
               : node.module.empty() ? node.name
                                     : fmt::format("{}.{}", node.module, node.name);
  }
  return paths;
}

}  // namespace troupe::graph
