#include "apps/inspect/inspect_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
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

/// PyTorch's name of an operator, from that of its node: "leaky_relu" of "leaky_relu_1", or of
/// "node_leaky_relu_1" in an ONNX file.
std::string operator_of(std::string_view node) {
  node.remove_prefix(node.rfind('/') + 1);  // npos + 1 is 0
  if (node.starts_with("node_")) node.remove_prefix(5);
  if (const auto last = node.find_last_not_of("0123456789");
      last != node.npos && last > 0 && last + 1 < node.size() && node[last] == '_')
    node = node.substr(0, last);
  return printable(node);
}

bool moves_elements(const graph::Operator& operation) {
  return std::holds_alternative<graph::Reshape>(operation) ||
         std::holds_alternative<graph::Slice>(operation) ||
         std::holds_alternative<graph::Concatenate>(operation);
}

/// Operators with the number of their uses. Several nodes of one name are the parts of an operator
/// that the reader has composed, such as a convolution of sequences.
void print_operators(const graph::Graph& graph) {
  std::map<std::string_view, std::vector<const graph::Node*>> composed;
  for (const graph::Node& node : graph.nodes) composed[node.name].push_back(&node);
  std::map<std::string, int> counts;
  for (auto& [name, parts] : composed) {
    std::vector<const graph::Node*> computing;
    std::ranges::copy_if(parts, std::back_inserter(computing),
                         [](const graph::Node* part) { return !moves_elements(part->operation); });
    if (computing.empty() && parts.size() == 1) computing = parts;
    ++counts[computing.size() == 1 ? std::string(name_of(computing[0]->operation))
                                   : operator_of(name)];
  }
  std::vector<Row> rows{{"operator", "count"}};
  for (const auto& [name, count] : counts) rows.push_back({name, std::to_string(count)});
  print_section(rows);
}

/// "2 operators, used 5 times".
std::string uses_text(const std::vector<graph::Lacking>& nodes) {
  std::set<std::string_view> operators;
  for (const graph::Lacking& node : nodes) operators.insert(node.operation);
  const auto count = std::ssize(operators), uses = std::ssize(nodes);
  return counted(count, "operator") + (uses == count ? "" : fmt::format(", used {} times", uses));
}

void print_nodes(const std::vector<graph::Lacking>& nodes) {
  std::vector<Row> rows;
  std::vector<std::string> remedies;
  for (const graph::Lacking& lacking : nodes) {
    rows.push_back({lacking.operation,
                    graph::Origin{lacking.name, lacking.module, lacking.source}.text(),
                    lacking.reason});
    if (const std::string remedy = graph::remedy_for(lacking);
        std::ranges::find(remedies, remedy) == remedies.end())
      remedies.push_back(remedy);
  }
  print_columns(rows);
  for (const std::string& remedy : remedies) print_out("try: {}\n", remedy);
  print_out("\n");
}

void print_lacking(const graph::Graph& graph) {
  std::vector<graph::Lacking> for_evaluation, lacking;
  std::string mode;
  for (graph::Lacking node : graph.lacking)
    if (graph::is_for_evaluation(node)) {
      mode = std::exchange(node.reason, "");  // said once, not in each row
      for_evaluation.push_back(std::move(node));
    } else {
      lacking.push_back(std::move(node));
    }
  if (!for_evaluation.empty()) {
    print_out("{}; it has {} in this mode:\n", mode, uses_text(for_evaluation));
    print_nodes(for_evaluation);
  }
  if (lacking.empty()) return;
  print_out("Troupe lacks {}, so it cannot train this model:\n", uses_text(lacking));
  print_nodes(lacking);
}

/// The module that a tensor belongs to.
std::string_view module_of(std::string_view name) {
  const auto dot = name.rfind('.');
  return name.substr(0, dot == name.npos ? 0 : dot);
}

/// Rows of tensors, of which the first column is the name: those of a module together, as in its
/// state_dict. The files have parameters before buffers.
void sort_by_module(std::vector<Row>& rows) {
  std::map<std::string, std::size_t> first;
  for (const Row& row : rows) first.emplace(module_of(row[0]), first.size());
  std::ranges::stable_sort(
      rows, {}, [&](const Row& row) { return first.at(std::string(module_of(row[0]))); });
}

constexpr const char* unread_parameter = "parameter that no operator reads";

/// What a tensor of the graph is.
std::string role_of(const graph::Graph& graph, const graph::Value& value,
                    const std::set<graph::ValueId>& read, graph::ValueId id) {
  if (value.kind == graph::Value::Kind::buffer) return "buffer";
  if (graph.unread.contains(value.name)) return unread_parameter;
  if (!graph.lacking.empty() && !read.contains(id))
    return graph::is_for_evaluation(graph) ? "parameter" : "parameter (operator lacking)";
  return value.trainable ? "" : "frozen";
}

void print_parameters(const graph::Graph& graph) {
  std::set<graph::ValueId> read;
  for (const graph::Node& node : graph.nodes) read.insert(node.inputs.begin(), node.inputs.end());
  std::vector<Row> rows;
  for (int i = 0; i < static_cast<int>(graph.values.size()); ++i) {
    const graph::Value& value = graph.value({i});
    if (value.kind != graph::Value::Kind::parameter && value.kind != graph::Value::Kind::buffer)
      continue;
    rows.push_back({value.name, std::string(name_of(value.dtype)), graph::to_string(value.shape),
                    role_of(graph, value, read, {i})});
  }
  for (const graph::Node& node : graph.nodes)
    if (const auto* norm = std::get_if<graph::BatchNorm>(&node.operation))
      if (!norm->counter.empty()) rows.push_back({norm->counter, "i64", "[]", "buffer"});
  for (const graph::Alias& alias : graph.aliases)
    rows.push_back({alias.name, "", "", fmt::format("is {}", alias.of)});
  for (const NamedTensor& constant : graph.constants)
    rows.push_back({constant.name, std::string(name_of(constant.tensor.dtype())),
                    to_string(constant.tensor.shape()),
                    graph.unread.contains(constant.name) ? unread_parameter : "constant"});
  sort_by_module(rows);
  rows.insert(rows.begin(), {"name", "dtype", "shape", ""});
  print_columns(rows);
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
  for (const std::string& note : graph.notes) print_out("note: {}\n\n", note);
  print_operators(graph);
  print_parameters(graph);
}

}  // namespace troupe
