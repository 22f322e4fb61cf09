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
void add_movement(Pt2Handlers& handlers);     ///< views, copies, conversions
void add_parts(Pt2Handlers& handlers);        ///< slices, concatenation, padding
void add_products(Pt2Handlers& handlers);     ///< matmul, attention, softmax, reductions
void add_recurrent(Pt2Handlers& handlers);    ///< LSTM, GRU, RNN: layers and cells
void add_random(Pt2Handlers& handlers);       ///< dropout, masks that a model draws itself
void add_constants(Pt2Handlers& handlers);    ///< constants, and functions of constants alone
void add_norms(Pt2Handlers& handlers);        ///< sqrt and rsqrt as parts of a norm
void add_masks(Pt2Handlers& handlers);        ///< fill, tril, triu, masked_fill, where

/// Whether an arithmetic node is a part of a dropout that the model writes out, and has been read
/// as such.
bool give_masked(const Pt2Node& node, ArithmeticOperation operation);

/// The same for a norm that the model writes out.
bool give_norm(const Pt2Node& node, ArithmeticOperation operation);

}  // namespace troupe::graph
