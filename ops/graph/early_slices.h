#pragma once
#include "ops/graph/graph.h"

namespace troupe::graph {

/// Moves slices before row-wise operations of whose result nothing else is read, so that a
/// transformer whose head reads one token computes the last layers for that token only. Results do
/// not change. Keeps the nodes that `output` needs. Slices of a value follow the node that makes
/// it, and equal slices are one.
Graph with_early_slices(Graph graph, ValueId output);

}  // namespace troupe::graph
