#pragma once
// A graph as blocks: consecutive parts between which a single tensor passes.

#include <memory>
#include <string>
#include <vector>

#include "ops/graph/steps.h"

namespace troupe::graph {

/// A part of a graph that a stage can hold: one tensor with a batch axis comes in, one goes out.
struct GraphBlock {
  std::string path;         ///< what its layers have in common, such as "layer1.0"
  std::vector<Step> steps;  ///< in order, with those of parameters and constants that it needs
  ValueId input, output;
};

/// A graph as a model of it runs.
struct Partition {
  std::shared_ptr<const Graph> graph;  ///< with early slices, and only the nodes that are needed
  std::vector<Step> steps = {};        ///< all, in order
  std::vector<GraphBlock> blocks = {};
};

/// The nodes that lead to `output`, in as many blocks as possible; each but the first contains a
/// convolution or linear layer, and layers that share a parameter are in one block.
Partition partition(Graph graph, ValueId output);

}  // namespace troupe::graph
