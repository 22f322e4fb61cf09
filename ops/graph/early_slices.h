#pragma once
#include "ops/graph/graph.h"

namespace troupe::graph {

/// The nodes that `output` needs, with slices before the operations that work on each row alone,
/// where a slice is all that is read of their result: a vision transformer whose head reads one
/// token computes the last layers for that token only. Each element is computed as before. Slices
/// of a value follow the node that makes it, and equal slices are one.
Graph with_early_slices(Graph graph, ValueId output);

}  // namespace troupe::graph
