#include "apps/inspect/inspect_graph.h"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "apps/inspect/print_columns.h"
#include "ops/graph/builder.h"
#include "ops/graph/model_of.h"
#include "ops/graph/partition.h"
#include "ops/graph/read_graph.h"
#include "ops/graph/shapes.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

using Row = std::vector<std::string>;

void print_section(const std::vector<Row>& rows) {
  print_columns(rows);
  print_out("\n");
}

std::int64_t elements(const graph::Value& value) { return graph::product(value.shape).fixed; }

void print_blocks(const graph::Graph& whole) {
  const graph::Partition parts = graph::partition(whole, whole.output);
  const graph::Graph& graph = *parts.graph;
  std::vector<Row> rows{{"block", "output", "parameters"}};
  for (const graph::GraphBlock& block : parts.blocks) {
    std::set<graph::ValueId> read;
    std::int64_t parameters = 0;
    for (const graph::Step& step : block.steps)
      for (const graph::ValueId id : step.inputs(graph))
        if (graph.value(id).kind == graph::Value::Kind::parameter && read.insert(id).second)
          parameters += elements(graph.value(id));
    rows.push_back({block.path, graph::to_string(graph.value(block.output).shape),
                    std::to_string(parameters)});
  }
  print_section(rows);
}

/// PyTorch's name of an operator, from that of its node: "leaky_relu" of "leaky_relu_1".
std::string operator_of(std::string_view node) {
  node.remove_prefix(node.rfind('/') + 1);  // npos + 1 is 0
  if (const auto last = node.find_last_not_of("0123456789");
      last != node.npos && last > 0 && last + 1 < node.size() && node[last] == '_')
    node = node.substr(0, last);
  return printable(node);
}

/// Operators with the number of their uses. Several nodes of one name are the parts of an operator
/// that the reader has composed.
void print_operators(const graph::Graph& graph) {
  std::map<std::string_view, int> parts;
  for (const graph::Node& node : graph.nodes) ++parts[node.name];
  std::map<std::string, int> counts;
  std::set<std::string_view> composed;
  for (const graph::Node& node : graph.nodes)
    if (parts[node.name] == 1)
      ++counts[std::string(name_of(node.operation))];
    else if (composed.insert(node.name).second)
      ++counts[operator_of(node.name)];
  std::vector<Row> rows{{"operator", "count"}};
  for (const auto& [name, count] : counts) rows.push_back({name, std::to_string(count)});
  print_section(rows);
}

void print_lacking(const graph::Graph& graph) {
  std::set<std::string_view> operators;
  for (const graph::Lacking& lacking : graph.lacking) operators.insert(lacking.operation);
  const auto count = std::ssize(operators), uses = std::ssize(graph.lacking);
  print_out(
      "Troupe lacks {}{}, so it cannot train this model. Replace {} by operators in\n"
      "docs/from-pytorch.md and export again:\n",
      counted(count, "operator"), uses == count ? "" : fmt::format(", used {} times", uses),
      count == 1 ? "it" : "them");
  std::vector<Row> rows;
  for (const graph::Lacking& lacking : graph.lacking)
    rows.push_back({lacking.operation,
                    graph::Origin{lacking.name, lacking.module, lacking.source}.text(),
                    lacking.reason});
  print_columns(rows);
  print_out("try: {}\n\n", graph::remedy_for(graph.lacking.front()));
}

void print_parameters(const graph::Graph& graph) {
  std::vector<Row> rows{{"name", "dtype", "shape", ""}};
  for (const graph::Value& value : graph.values) {
    const bool parameter = value.kind == graph::Value::Kind::parameter;
    if (!parameter && value.kind != graph::Value::Kind::buffer) continue;
    rows.push_back({value.name, std::string(name_of(value.dtype)), graph::to_string(value.shape),
                    !parameter        ? "buffer"
                    : value.trainable ? ""
                                      : "frozen"});
  }
  for (const graph::Alias& alias : graph.aliases)
    rows.push_back({alias.name, "", "", fmt::format("is {}", alias.of)});
  for (const NamedTensor& constant : graph.constants)
    rows.push_back({constant.name, std::string(name_of(constant.tensor.dtype())),
                    to_string(constant.tensor.shape()), "constant"});
  print_section(rows);
}

}  // namespace

void inspect_graph(const std::filesystem::path& path) {
  const graph::Graph graph = graph::read_graph(path);
  std::int64_t parameters = 0;
  for (const graph::Value& value : graph.values)
    if (value.kind == graph::Value::Kind::parameter) parameters += elements(value);
  print_out("{}: a model from PyTorch, {} to {}, with {}\n\n", path.string(),
            graph::to_string(graph.value(graph.input).shape),
            graph::to_string(graph.value(graph.output).shape), counted(parameters, "parameter"));
  if (graph.lacking.empty())
    print_blocks(graph);
  else
    print_lacking(graph);
  print_operators(graph);
  print_parameters(graph);
}

}  // namespace troupe
