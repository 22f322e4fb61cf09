#include "ops/graph/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "ops/graph/early_slices.h"
#include "ops/graph/joined_images.h"
#include "ops/graph/shapes.h"
#include "runtime/error.h"

namespace troupe::graph {
namespace {

std::size_t place(ValueId id) { return static_cast<std::size_t>(id.index); }

/// Whether a layer is worth a block of its own.
bool is_heavy(const Operator& operation) {
  return std::holds_alternative<Convolution>(operation) ||
         std::holds_alternative<Linear>(operation) || std::holds_alternative<Matmul>(operation) ||
         std::holds_alternative<Attention>(operation) ||
         std::holds_alternative<Embedding>(operation);
}

/// What two dotted paths have in common.
std::string common_path(const std::string& a, const std::string& b) {
  std::size_t end = 0;
  for (std::size_t i = 0; i <= std::min(a.size(), b.size()); ++i) {
    const bool ends_a = i == a.size() || a[i] == '.', ends_b = i == b.size() || b[i] == '.';
    if (ends_a && ends_b) end = i;
    if (i < std::min(a.size(), b.size()) && a[i] != b[i]) break;
  }
  return a.substr(0, end);
}

class Division {
 public:
  Division(const Graph& graph, const std::vector<Step>& steps, ValueId output)
      : graph_(graph), steps_(steps), output_(output), carries_data_(graph.values.size(), false) {
    carries_data_[place(graph.input)] = true;
    made_by_.resize(graph.values.size(), nullptr);
    for (const Step& step : steps) {
      bool data = false;
      for (const ValueId input : step.inputs(graph)) data = data || carries_data_[place(input)];
      carries_data_[place(step.output)] = data;
      made_by_[place(step.output)] = &step;
      if (data) data_steps_.push_back(&step);
    }
    if (data_steps_.empty())
      throw Error(ErrorCode::bad_file, "the model's output does not depend on its input",
                  "export a module that computes something");
  }

  std::vector<GraphBlock> blocks() {
    const std::vector<Range> merged = without_ties(merged_pieces());
    std::vector<GraphBlock> result;
    ValueId input = graph_.input;
    for (const Range& range : merged) {
      result.push_back(block_of(range, input));
      input = result.back().output;
    }
    name_apart(result);
    return result;
  }

 private:
  struct Range {  ///< of data_steps_
    std::size_t first = 0, last = 0;
    ValueId output;
  };

  /// Where a single tensor passes.
  std::vector<Range> pieces() const {
    std::vector<std::size_t> last_reader(graph_.values.size(), 0);
    for (std::size_t i = 0; i < data_steps_.size(); ++i)
      for (const ValueId input : data_steps_[i]->inputs(graph_)) last_reader[place(input)] = i;
    last_reader[place(output_)] = data_steps_.size();
    std::vector<Range> result;
    std::set<int> live{graph_.input.index};
    std::vector<std::vector<int>> ending(data_steps_.size() + 1);
    ending[last_reader[place(graph_.input)]].push_back(graph_.input.index);
    std::size_t first = 0;
    for (std::size_t i = 0; i < data_steps_.size(); ++i) {
      const ValueId made = data_steps_[i]->output;
      live.insert(made.index);
      ending[last_reader[place(made)]].push_back(made.index);
      for (const int index : ending[i]) live.erase(index);
      const bool single = live.size() == 1 && has_batch_axis(graph_.value({*live.begin()}).shape);
      if (!single && i + 1 < data_steps_.size()) continue;
      result.push_back({first, i + 1, {live.empty() ? output_.index : *live.begin()}});
      first = i + 1;
    }
    return result;
  }

  /// Pieces without a matrix or a kernel join the block before.
  std::vector<Range> merged_pieces() const {
    std::vector<Range> result;
    bool has_heavy = false;
    for (const Range& piece : pieces()) {
      bool heavy = false;
      for (std::size_t i = piece.first; i < piece.last; ++i)
        heavy = heavy || is_heavy(graph_.nodes[data_steps_[i]->node].operation);
      if (result.empty() || (heavy && has_heavy)) {
        result.push_back(piece);
      } else {
        result.back().last = piece.last;
        result.back().output = piece.output;
      }
      has_heavy = has_heavy || heavy;
    }
    return result;
  }

  /// The parameters that a step reads, also through steps of parameters alone.
  std::set<int> parameters_of(const Step& step) const {
    std::set<int> result, seen;
    std::vector<ValueId> open = step.inputs(graph_);
    while (!open.empty()) {
      const ValueId value = open.back();
      open.pop_back();
      if (carries_data_[place(value)] || !seen.insert(value.index).second) continue;
      const Value::Kind kind = graph_.value(value).kind;
      if (kind == Value::Kind::parameter || kind == Value::Kind::buffer) result.insert(value.index);
      if (const Step* maker = made_by_[place(value)])
        for (const ValueId input : maker->inputs(graph_)) open.push_back(input);
    }
    return result;
  }

  /// Joins the blocks from the first to the last that read the same parameter.
  std::vector<Range> without_ties(std::vector<Range> ranges) const {
    std::map<int, std::pair<std::size_t, std::size_t>> users;  // first and last block
    for (std::size_t r = 0; r < ranges.size(); ++r)
      for (std::size_t i = ranges[r].first; i < ranges[r].last; ++i)
        for (const int parameter : parameters_of(*data_steps_[i]))
          users.emplace(parameter, std::pair{r, r}).first->second.second = r;
    std::vector<std::size_t> reaches(ranges.size());
    for (std::size_t r = 0; r < ranges.size(); ++r) reaches[r] = r;
    for (const auto& [parameter, range] : users)
      reaches[range.first] = std::max(reaches[range.first], range.second);
    std::vector<Range> result;
    for (std::size_t r = 0; r < ranges.size();) {
      Range joined = ranges[r];
      for (std::size_t end = reaches[r]; r <= end; ++r) {
        end = std::max(end, reaches[r]);
        joined.last = ranges[r].last, joined.output = ranges[r].output;
      }
      result.push_back(joined);
    }
    return result;
  }

  /// The steps of a range, each after those of parameters and constants that it needs.
  GraphBlock block_of(const Range& range, ValueId input) const {
    GraphBlock block{.path = {}, .steps = {}, .input = input, .output = range.output};
    std::set<const Step*> needed;
    for (std::size_t i = range.first; i < range.last; ++i) {
      std::vector<const Step*> open{data_steps_[i]};
      while (!open.empty()) {
        const Step* step = open.back();
        open.pop_back();
        if (!needed.insert(step).second) continue;
        for (const ValueId value : step->inputs(graph_))
          if (const Step* maker = made_by_[place(value)]; maker && !carries_data_[place(value)])
            open.push_back(maker);
      }
    }
    std::vector<const Step*> ordered(needed.begin(), needed.end());
    std::ranges::sort(ordered);  // they lie in one array, in their order
    for (const Step* step : ordered) block.steps.push_back(*step);
    block.path = path_of(block);
    return block;
  }

  std::string path_of(const GraphBlock& block) const {
    for (const bool heavy_only : {true, false}) {
      std::optional<std::string> path;
      for (const Step& step : block.steps) {
        const Node& node = graph_.nodes[step.node];
        if (node.module.empty() || (heavy_only && !is_heavy(node.operation))) continue;
        path = path ? common_path(*path, node.module) : node.module;
      }
      if (path && !path->empty()) return *path;
    }
    return block.steps.empty() ? "identity" : graph_.nodes[block.steps.front().node].name;
  }

  /// Gives blocks of one module numbers.
  static void name_apart(std::vector<GraphBlock>& blocks) {
    std::map<std::string, int> count;
    for (GraphBlock& block : blocks)
      if (const int number = ++count[block.path]; number > 1)
        block.path += fmt::format(":{}", number);
  }

  const Graph& graph_;
  const std::vector<Step>& steps_;
  ValueId output_;
  std::vector<bool> carries_data_;    ///< by value: whether it depends on the samples
  std::vector<const Step*> made_by_;  ///< by value
  std::vector<const Step*> data_steps_;
};

}  // namespace

Partition partition(Graph graph, ValueId output) {
  Graph joined = with_joined_images(std::move(graph), output);
  Partition result{std::make_shared<const Graph>(with_early_slices(std::move(joined), output))};
  result.steps = steps_to(*result.graph, output);
  result.blocks = Division(*result.graph, result.steps, output).blocks();
  return result;
}

}  // namespace troupe::graph
