#pragma once
#include "ops/graph/graph.h"

namespace troupe::graph {

/// Keeps sequences as images (ops/graph/compositions.h) between two layers: what lies there and
/// changes single elements, such as an activation, a dropout or a residual, takes images too, and a
/// reshape of images to sequences and back is left out. So batch norm is joined to what follows it
/// (Step), and tensors stay in the memory layout of the convolutions. Results do not change.
Graph with_joined_images(Graph graph, ValueId output);

}  // namespace troupe::graph
