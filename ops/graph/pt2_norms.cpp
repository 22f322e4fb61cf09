// Norms by the root mean square that a model writes out: x * rsqrt(mean(x * x) + epsilon).

#include <algorithm>

#include "ops/graph/compositions.h"
#include "ops/graph/pt2_constants.h"
#include "ops/graph/pt2_operators.h"

namespace troupe::graph {
namespace {

template <class Operation>
const Node* producer_as(const Pt2Node& node, ValueId value) {
  for (const Node& made : node.context().builder.graph.nodes)
    if (made.output == value)
      return std::holds_alternative<Operation>(made.operation) ? &made : nullptr;
  return nullptr;
}

/// The root of `value`, if it is that of a mean square over the last axes.
std::optional<RootMeanSquare> root_of(const Pt2Node& node, ValueId value, bool reciprocal) {
  const Node* sum = producer_as<Affine>(node, value);
  if (!sum || std::get<Affine>(sum->operation).factor != 1.0) return std::nullopt;
  const Node* mean = producer_as<Reduce>(node, sum->inputs[0]);
  if (!mean) return std::nullopt;
  const auto& reduced = std::get<Reduce>(mean->operation);
  const Node* square = producer_as<Arithmetic>(node, mean->inputs[0]);
  if (!square || !reduced.mean || !reduced.keeps_axes || square->inputs[0] != square->inputs[1] ||
      std::get<Arithmetic>(square->operation).operation != ArithmeticOperation::multiply)
    return std::nullopt;
  const ValueId x = square->inputs[0];
  const auto rank = static_cast<int>(node.shape(x).size());
  for (std::size_t i = 0; i < reduced.axes.size(); ++i)
    if (reduced.axes[i] != rank - static_cast<int>(reduced.axes.size() - i)) return std::nullopt;
  return RootMeanSquare{.x = x,
                        .axes = reduced.axes.size(),
                        .epsilon = std::get<Affine>(sum->operation).offset,
                        .reciprocal = reciprocal};
}

template <bool reciprocal>
void root(const Pt2Node& node) {
  if (is_known(node, "self")) return give_root(node, reciprocal);
  if (const auto found = root_of(node, node.value("self"), reciprocal))
    node.context().roots[node.outputs().at(0)] = *found;
  throw LacksOperator{"it is not a part of x / sqrt(mean(x * x) + eps)"};
}

}  // namespace

bool give_norm(const Pt2Node& node, ArithmeticOperation operation) {
  const bool multiplies = operation == ArithmeticOperation::multiply;
  const auto& roots = node.context().roots;
  for (const auto& [x, by] : {std::pair("self", "other"), std::pair("other", "self")}) {
    if (!node.is_tensor(x) || !node.is_tensor(by)) return false;
    const auto root = roots.find(node.name_of(by));
    if (root == roots.end() || root->second.x != node.value(x)) continue;
    const bool divides =
        operation == ArithmeticOperation::divide && by == std::string_view("other");
    if (root->second.reciprocal ? !multiplies : !divides) continue;
    const AddNode add = [&node](Operator made, std::vector<ValueId> inputs) {
      return node.add(std::move(made), std::move(inputs));
    };
    const auto& [of, axes, epsilon, reciprocal] = root->second;
    return node.give(add_rms_norm(add, of, node.shape(of), axes, epsilon, {})), true;
  }
  return false;
}

void add_norms(Pt2Handlers& handlers) {
  handlers["sqrt.default"] = root<false>;
  handlers["rsqrt.default"] = root<true>;
}

}  // namespace troupe::graph
