#include "ops/graph/early_slices.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "ops/graph/shapes.h"
#include "runtime/overloaded.h"

namespace troupe::graph {
namespace {

constexpr int whole = -1;  // in place of an axis: the input is read as it is

std::size_t place(ValueId id) { return static_cast<std::size_t>(id.index); }

/// The elements behind an axis; empty if their number depends on the samples.
std::optional<std::int64_t> elements_behind(const Sizes& shape, int axis) {
  std::int64_t count = 1;
  for (auto size = shape.begin() + axis + 1; size != shape.end(); ++size) {
    if (!is_fixed(*size)) return std::nullopt;
    count *= size->fixed;
  }
  return count;
}

/// The axes of a node's inputs that a slice of its result's axis slices; empty if it must stay
/// behind the node.
class SlicedAxes {
 public:
  using Axes = std::optional<std::vector<int>>;

  SlicedAxes(const Graph& graph, const Node& node, int axis)
      : graph_(graph), node_(node), axis_(axis), shape_(graph.value(node.output).shape) {}

  Axes find() const {
    const auto each = [&](const auto&) { return first(axis_); };
    return std::visit(
        Overloaded{
            [&](const Relu& o) { return each(o); }, [&](const Activate& o) { return each(o); },
            [&](const Clamp& o) { return each(o); }, [&](const Affine& o) { return each(o); },
            [&](const Linear&) { return axis_ == last() ? std::nullopt : first(axis_); },
            [&](const LayerNorm& o) { return of_rows(o.features); },
            [&](const Softmax& o) { return of_softmax(o.axis); },
            [&](const Arithmetic&) { return of_arithmetic(); },
            [&](const Matmul&) { return axis_ == last() - 1 ? of_matmul() : std::nullopt; },
            [&](const Attention& o) { return o.causal ? std::nullopt : of_attention(); },
            [&](const Permute& o) { return of_permute(o.axes); },
            [&](const Reshape&) { return of_reshape(); }, [](const auto&) { return Axes(); }},
        node_.operation);
  }

 private:
  const Sizes& shape(std::size_t input) const { return graph_.value(node_.inputs[input]).shape; }
  int last() const { return static_cast<int>(shape_.size()) - 1; }

  /// The first input alone is sliced.
  Axes first(int axis) const {
    std::vector<int> axes(node_.inputs.size(), whole);
    axes[0] = axis;
    return axes;
  }

  Axes of_rows(std::int64_t features) const {
    const auto behind = elements_behind(shape_, axis_);
    return behind && *behind >= features ? first(axis_) : std::nullopt;
  }

  Axes of_softmax(int over) const {
    return axis_of(over, shape_.size()) == axis_ ? std::nullopt : first(axis_);
  }

  Axes of_arithmetic() const {
    std::vector<int> axes;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const int own = axis_ - static_cast<int>(shape_.size() - shape(i).size());
      const bool repeated = own < 0 || shape(i)[static_cast<std::size_t>(own)] == fixed(1);
      const bool computed = graph_.value(node_.inputs[i]).kind == Value::Kind::computed;
      if (!repeated && !computed) return std::nullopt;
      axes.push_back(repeated ? whole : own);
    }
    return axes;
  }

  Axes of_matmul() const {
    return shape(0).size() < 2 ? std::nullopt : first(static_cast<int>(shape(0).size()) - 2);
  }

  /// The tokens of the queries.
  Axes of_attention() const {
    const bool masked = node_.inputs.size() > 3 && node_.inputs[3].index >= 0;
    return masked || axis_ != last() - 1 ? std::nullopt : first(axis_);
  }

  Axes of_permute(const std::vector<int>& axes) const {
    return first(axis_of(axes[static_cast<std::size_t>(axis_)], shape_.size()));
  }

  /// An axis that the reshape keeps: of the same size, with as many elements behind it.
  Axes of_reshape() const {
    const auto behind = elements_behind(shape_, axis_);
    for (int own = static_cast<int>(shape(0).size()) - 1; behind && own >= 0; --own)
      if (shape(0)[static_cast<std::size_t>(own)] == shape_[static_cast<std::size_t>(axis_)] &&
          elements_behind(shape(0), own) == behind)
        return first(own);
    return std::nullopt;
  }

  const Graph& graph_;
  const Node& node_;
  int axis_;
  const Sizes& shape_;
};

/// Goes from the last node to the first: when it comes to a node, it knows all that reads it.
class EarlySlices {
 public:
  EarlySlices(Graph graph, ValueId output)
      : graph_(std::move(graph)), output_(output), uses_(graph_.values.size()) {
    uses_[place(output)].as_a_whole = true;
  }

  Graph run() && {
    std::vector<Node> nodes = std::exchange(graph_.nodes, {});
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) visit(std::move(*node));
    for (Uses& uses : uses_) emit(uses.slices);
    std::ranges::reverse(emitted_);
    for (Node& node : emitted_)
      for (ValueId& input : node.inputs)
        if (const auto same = same_as_.find(input); same != same_as_.end()) input = same->second;
    graph_.nodes = std::move(emitted_);
    return std::move(graph_);
  }

 private:
  struct Uses {  ///< of a value
    bool as_a_whole = false;
    std::vector<Node> slices;  ///< different ones
  };

  void visit(Node node) {
    Uses& uses = uses_[place(node.output)];
    if (!uses.as_a_whole && uses.slices.empty()) return;
    if (std::holds_alternative<Slice>(node.operation)) {
      emit(uses.slices);
      return add_slice(std::move(node));
    }
    if (!moves_behind_slice(node, uses)) {
      emit(uses.slices);
      for (const ValueId input : node.inputs)
        if (input.index >= 0) uses_[place(input)].as_a_whole = true;
    }
    emitted_.push_back(std::move(node));
  }

  void emit(std::vector<Node>& slices) {
    for (Node& slice : std::exchange(slices, {})) emitted_.push_back(std::move(slice));
  }

  const Node* find_slice(ValueId of, const Slice& wanted) const {
    for (const Node& node : uses_[place(of)].slices) {
      const auto& known = std::get<Slice>(node.operation);
      if (known.axis == wanted.axis && known.start == wanted.start && known.count == wanted.count)
        return &node;
    }
    return nullptr;
  }

  void add_slice(Node node) {
    const Node* known = find_slice(node.inputs[0], std::get<Slice>(node.operation));
    if (known && node.output != output_)
      same_as_[node.output] = known->output;
    else
      uses_[place(node.inputs[0])].slices.push_back(std::move(node));
  }

  /// The value of such a slice of a value, which is new unless there is one.
  ValueId sliced(ValueId of, int axis, const Node& like) {
    Slice slice = std::get<Slice>(like.operation);
    slice.axis = axis;
    if (const Node* known = find_slice(of, slice)) return known->output;
    Value value{.name = graph_.value(like.output).name, .dtype = graph_.value(of).dtype};
    value.shape = graph_.value(of).shape;
    value.shape[static_cast<std::size_t>(axis)] = fixed(slice.count);
    const ValueId id{static_cast<int>(graph_.values.size())};
    graph_.values.push_back(std::move(value));
    uses_.emplace_back();
    uses_[place(of)].slices.push_back({slice, {of}, id, like.name, like.module, like.source});
    return id;
  }

  /// Lets the node compute the only slice of its result from slices of its inputs, if that is
  /// possible and the slice is at most half of the result: else two slices may cost more than one.
  bool moves_behind_slice(Node& node, Uses& uses) {
    if (uses.as_a_whole || uses.slices.size() != 1) return false;
    const auto& [axis, start, count] = std::get<Slice>(uses.slices[0].operation);
    const Sizes& shape = graph_.value(node.output).shape;
    const Size size = shape[static_cast<std::size_t>(axis_of(axis, shape.size()))];
    if (!is_fixed(size) || count > size.fixed / 2) return false;
    const auto axes = SlicedAxes(graph_, node, axis_of(axis, shape.size())).find();
    if (!axes) return false;
    const Node slice = std::exchange(uses.slices, {})[0];
    node.output = slice.output;
    if (auto* reshape = std::get_if<Reshape>(&node.operation))
      reshape->shape = graph_.value(slice.output).shape;
    for (std::size_t i = 0; i < axes->size(); ++i) {
      ValueId& input = node.inputs[i];
      if ((*axes)[i] != whole)
        input = sliced(input, (*axes)[i], slice);
      else if (input.index >= 0)
        uses_[place(input)].as_a_whole = true;
    }
    return true;
  }

  Graph graph_;
  ValueId output_;
  std::deque<Uses> uses_;  ///< by value
  std::map<ValueId, ValueId> same_as_;
  std::vector<Node> emitted_;  ///< from the last to the first
};

}  // namespace

Graph with_early_slices(Graph graph, ValueId output) {
  return EarlySlices(std::move(graph), output).run();
}

}  // namespace troupe::graph
