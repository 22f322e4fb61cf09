#include "ops/graph/model_of.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ops/graph/block_module.h"
#include "ops/graph/builder.h"
#include "ops/graph/compositions.h"
#include "ops/graph/shapes.h"
#include "runtime/error.h"
#include "runtime/text.h"

namespace troupe::graph {
namespace {

const Node* maker_of(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes)
    if (node.output == value) return &node;
  return nullptr;
}

void check_complete(const Graph& graph) {
  if (graph.lacking.empty()) return;
  const auto evaluation = std::ranges::find_if(
      graph.lacking, [](const Lacking& lacking) { return is_for_evaluation(lacking); });
  const bool for_evaluation = evaluation != graph.lacking.end();
  const Lacking& first = for_evaluation ? *evaluation : graph.lacking.front();
  const std::string place = Origin{first.name, first.module, first.source}.text();
  if (for_evaluation)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: it has {}, {}", first.reason, first.operation, place),
                remedy_for(first));
  std::set<std::string> others;
  for (const Lacking& lacking : graph.lacking) others.insert(lacking.operation);
  others.erase(first.operation);
  std::string message = fmt::format("the operator {}, {}, cannot be run", first.operation, place);
  if (!first.reason.empty()) message += ": " + first.reason;
  if (!others.empty())
    message += fmt::format("; nor can {}",
                           listed(std::vector<std::string>(others.begin(), others.end()), 3));
  throw Error(ErrorCode::unsupported, message, remedy_for(first));
}

/// The names of tensors that no step reads: training does not change them.
std::vector<std::string> untouched(const Graph& graph, const std::vector<Step>& steps) {
  std::set<std::string> read;
  for (const Step& step : steps) {
    for (const ValueId input : step.inputs(graph)) read.insert(graph.value(input).name);
    if (const auto* norm = std::get_if<BatchNorm>(&graph.nodes[step.node].operation))
      read.insert(norm->counter);
  }
  std::vector<std::string> result;
  for (const TensorInfo& tensor : graph.weights.tensors)
    if (!read.contains(tensor.name)) result.push_back(tensor.name);
  return result;
}

}  // namespace

bool is_for_evaluation(const Lacking& lacking) { return lacking.reason == evaluation_mode; }

bool is_for_evaluation(const Graph& graph) {
  return std::ranges::any_of(graph.lacking,
                             [](const Lacking& lacking) { return is_for_evaluation(lacking); });
}

std::string remedy_for(const Lacking& lacking) {
  if (!lacking.remedy.empty()) return lacking.remedy;
  return "write the Python module with operators that docs/from-pytorch.md lists, and export it "
         "again after net.train(); exported in the other format (.pt2 or .onnx) it may have other "
         "operators";
}

const Softmax* last_softmax(const Graph& graph) {
  const Node* last = maker_of(graph, graph.output);
  const auto* softmax = last ? std::get_if<Softmax>(&last->operation) : nullptr;
  const std::size_t rank = graph.value(graph.output).shape.size();
  return softmax && rank == 2 && axis_of(softmax->axis, rank) == 1 ? softmax : nullptr;
}

bool ends_with_log_softmax(const Graph& graph) {
  const Softmax* softmax = last_softmax(graph);
  return softmax && softmax->logarithm;
}

Model model_of(const std::shared_ptr<const Graph>& graph, const GraphModelOptions& options) {
  check_complete(*graph);
  ValueId output = graph->output;
  if (options.drops_log_softmax && ends_with_log_softmax(*graph))
    output = maker_of(*graph, output)->inputs[0];
  Partition parts = partition(*graph, output);
  Model model;
  for (GraphBlock& block : parts.blocks)
    model.blocks.push_back(std::make_unique<BlockModule>(
        parts.graph, std::move(block), options, model.blocks.empty(),
        model.blocks.empty() ? untouched(*parts.graph, parts.steps) : std::vector<std::string>{}));
  return model;
}

}  // namespace troupe::graph
