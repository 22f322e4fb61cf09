#pragma once
#include <memory>

#include "ops/graph/graph.h"
#include "ops/models/model.h"

namespace troupe::graph {

struct GraphModelOptions {
  /// Parameters and running statistics are drawn anew, as PyTorch draws those of the layer that
  /// they belong to; a parameter without a layer keeps its value.
  bool initialise = false;
  ConvolutionAlgorithm convolution = ConvolutionAlgorithm::automatic;
  /// Leave out a log-softmax over the classes at the end: cross-entropy contains it.
  bool drops_log_softmax = false;
};

/// Whether a model that cannot be trained contains an operator in its form of evaluation mode:
/// Troupe has the operator, and net.train() before the export is the remedy.
bool is_for_evaluation(const Graph& graph);
bool is_for_evaluation(const Lacking& lacking);

/// What to do about an operator that Troupe lacks.
std::string remedy_for(const Lacking& lacking);

/// The softmax or log-softmax over the last axis with which the graph ends; null if it ends with
/// another operation. Valid as long as the graph.
const Softmax* last_softmax(const Graph& graph);

/// A model with a block for each part of the graph (partition). Blocks share the graph and record
/// the primitives of ops/primitives. Their initial state is that of the file unless `initialise`.
/// Throws Error{unsupported} for a graph that is_for_evaluation or lacks operators, naming the
/// first of them, and for layers that cannot share a parameter.
Model model_of(const std::shared_ptr<const Graph>& graph, const GraphModelOptions& options);

}  // namespace troupe::graph
