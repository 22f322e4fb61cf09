#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ops/graph/graph.h"
#include "runtime/error.h"

namespace troupe::graph {

/// Where a node of a file comes from.
struct Origin {
  std::string name;    ///< Node::name
  std::string module;  ///< Node::module
  std::string source;  ///< Node::source

  /// "conv2d_3 of layer1.0.conv1 (net.py, line 12)".
  std::string text() const;
};

/// An error whose message begins with the origin of a node.
struct NodeError : Error {
  using Error::Error;
};

/// Appends values and nodes to a Graph, with the shapes that follow from the operators.
class GraphBuilder {
 public:
  Graph graph;

  ValueId add_value(Value value);
  /// A node with a new value. Throws NodeError{bad_file} if the operator does not take these
  /// inputs.
  ValueId add(Operator operation, std::vector<ValueId> inputs, const Origin& origin);
  const Sizes& shape(ValueId id) const { return graph.value(id).shape; }
};

}  // namespace troupe::graph
