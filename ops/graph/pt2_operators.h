#pragma once
// PyTorch's operators as those of ops/graph/graph.h, by family. Each handler reads a node's
// arguments and gives its outputs. It throws LacksOperator for what Troupe cannot run.

#include <map>
#include <string_view>

#include "ops/graph/pt2_node.h"

namespace troupe::graph {

using Pt2Handler = void (*)(const Pt2Node&);
using Pt2Handlers = std::map<std::string_view, Pt2Handler>;  ///< by Pt2Node::target

void add_layers(Pt2Handlers& handlers);       ///< convolution, linear, norms, pooling, embedding
void add_elementwise(Pt2Handlers& handlers);  ///< activations, arithmetic
void add_movement(Pt2Handlers& handlers);     ///< reshaping, slicing, concatenation
void add_products(Pt2Handlers& handlers);     ///< matmul, attention, softmax, reductions, constants
void add_random(Pt2Handlers& handlers);       ///< dropout, masks that a model draws itself

/// Whether an arithmetic node is a part of a dropout that the model writes out, and has been read
/// as such.
bool give_masked(const Pt2Node& node, ArithmeticOperation operation);

}  // namespace troupe::graph
