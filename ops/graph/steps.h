#pragma once
// A graph as the steps that a model records: its nodes, those together that one primitive does.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// A node, and what follows it in the same primitive.
struct Step {
  std::size_t node = 0;  ///< in Graph::nodes
  ValueId output;        ///< of the last of them

  // Of a batch norm: the operations behind it, as in nn::BatchNormOptions.
  ValueId residual = {};  ///< added before the ReLU
  bool relu = false;
  double dropout = 0.0;  ///< after the ReLU; none with a residual

  std::string dropout_path = {};  ///< of that dropout, or of the node if it is one

  /// All values that it reads; absent ones are left out.
  std::vector<ValueId> inputs(const Graph& graph) const;
};

/// The steps of a graph whose nodes all lead to `output`, in an order in which they can run. A
/// batch norm is fused with a following ReLU, a dropout after that, or a sum with a value of the
/// same shape.
std::vector<Step> steps_to(const Graph& graph, ValueId output);

/// The names of the random numbers of each dropout, by its index in Graph::nodes: its module's
/// path, made unique by the node's name where several nodes belong to one module.
std::map<std::size_t, std::string> dropout_paths(const Graph& graph);

}  // namespace troupe::graph
