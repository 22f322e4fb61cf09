#pragma once
#include "ops/graph/graph.h"

namespace troupe::graph {

/// Moves a slice before a row-wise operation if nothing else reads the result of that operation:
/// if the head of a transformer reads one token, the last layers compute that token only. Results
/// do not change, but for the numbers that the dropout of an attention draws. Keeps the nodes that
/// `output` needs. Slices of a value follow the node that makes it, and equal slices are one.
Graph with_early_slices(Graph graph, ValueId output);

}  // namespace troupe::graph
