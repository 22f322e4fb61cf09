#include "ops/graph/joined_images.h"

#include <map>
#include <utility>

#include "ops/graph/compositions.h"
#include "ops/graph/shapes.h"
#include "runtime/overloaded.h"

namespace troupe::graph {
namespace {

/// Whether an operation changes single elements, or channels as a whole.
bool is_elementwise(const Operator& operation) {
  return std::visit(
      Overloaded{[](const Relu&) { return true; }, [](const Activate&) { return true; },
                 [](const Clamp&) { return true; }, [](const Affine&) { return true; },
                 [](const Arithmetic&) { return true; },
                 [](const Dropout& dropout) { return dropout.drawn_axes <= 2; },
                 [](const auto&) { return false; }},
      operation);
}

class JoinedImages {
 public:
  JoinedImages(Graph graph, ValueId output) : graph_(std::move(graph)), output_(output) {}

  Graph run() && {
    for (Node& node : std::exchange(graph_.nodes, {})) {
      for (ValueId& input : node.inputs)
        if (const auto same = same_as_.find(input); same != same_as_.end()) input = same->second;
      if (std::holds_alternative<Reshape>(node.operation))
        visit_reshape(std::move(node));
      else if (is_elementwise(node.operation) && takes_images(node))
        compute_images(std::move(node));
      else
        graph_.nodes.push_back(std::move(node));
    }
    return std::move(graph_);
  }

 private:
  const Sizes& shape(ValueId id) const { return graph_.value(id).shape; }

  void visit_reshape(Node node) {
    const ValueId from = node.inputs[0], to = node.output;
    if (are_sequences(shape(to)) && shape(from) == as_images(shape(to))) images_[to] = from;
    const auto images = images_.find(from);
    if (images != images_.end() && shape(to) == shape(images->second) && to != output_)
      same_as_[to] = images->second;
    else
      graph_.nodes.push_back(std::move(node));
  }

  /// Whether all inputs are images seen as sequences of one shape.
  bool takes_images(const Node& node) const {
    for (const ValueId input : node.inputs)
      if (!images_.contains(input) || shape(input) != shape(node.inputs[0])) return false;
    return true;
  }

  /// The result as sequences follows for whatever needs it; with_early_slices drops it otherwise.
  void compute_images(Node node) {
    const ValueId sequences = node.output, images{static_cast<int>(graph_.values.size())};
    Value value = graph_.value(sequences);
    value.shape = as_images(value.shape);
    graph_.values.push_back(std::move(value));
    for (ValueId& input : node.inputs) input = images_.at(input);
    node.output = images;
    Node back{Reshape{shape(sequences)}, {images}, sequences, node.name, node.module, node.source};
    graph_.nodes.push_back(std::move(node));
    graph_.nodes.push_back(std::move(back));
    images_[sequences] = images;
  }

  Graph graph_;
  ValueId output_;
  std::map<ValueId, ValueId> images_;   ///< by sequences with the same elements
  std::map<ValueId, ValueId> same_as_;  ///< images that there are already
};

}  // namespace

Graph with_joined_images(Graph graph, ValueId output) {
  return JoinedImages(std::move(graph), output).run();
}

}  // namespace troupe::graph
