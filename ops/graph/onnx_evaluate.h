#pragma once
// Evaluation of the nodes that depend only on constants and shapes.

#include <optional>
#include <span>

#include "ops/graph/onnx_numbers.h"

namespace troupe::graph::onnx {

/// The result of a node; nullopt for an unknown operation. Absent inputs are null. Throws Error
/// naming the node if its inputs do not fit, if the result is not linear in the batch size (Size),
/// or if it exceeds the budget.
std::optional<Numbers> evaluate(const NodeView& node, std::span<const Numbers* const> inputs,
                                Budget& budget);

// Families of operations.

/// As `evaluate`; nullopt for an operation of another family.
std::optional<Numbers> evaluate_arithmetic(const NodeView& node,
                                           std::span<const Numbers* const> inputs, Budget& budget);
std::optional<Numbers> evaluate_movement(const NodeView& node,
                                         std::span<const Numbers* const> inputs, Budget& budget);

/// An input that must be there.
const Numbers& needed(const NodeView& node, std::span<const Numbers* const> inputs,
                      std::size_t index);

/// The element type of a Cast's `to`. Refuses the node for text and complex numbers.
DType cast_type(const NodeView& node, std::int64_t onnx_type);

}  // namespace troupe::graph::onnx
