#pragma once
// The shapes of results, by ONNX's rules. The functions refuse a node that has no valid shape.

#include <span>
#include <vector>

#include "ops/graph/onnx_numbers.h"

namespace troupe::graph::onnx {

/// Refuses the node where a size depends on the samples.
std::vector<std::int64_t> fixed_dims(const NodeView& node, const Sizes& sizes);

/// Of Reshape: 0 keeps an axis, -1 is the rest.
Sizes reshaped(const NodeView& node, const Sizes& from, const Numbers& shape);
/// Of Flatten: two axes.
Sizes flattened(const NodeView& node, const Sizes& from);
/// Of Squeeze; without axes all of size 1.
Sizes squeezed(const NodeView& node, const Sizes& from, const Numbers* axes);
Sizes unsqueezed(const NodeView& node, const Sizes& from, const Numbers& axes);
/// Of Expand: both shapes are broadcast.
Sizes expanded(const NodeView& node, const Sizes& from, const Numbers& shape);
/// Of Concat.
Sizes concatenated(const NodeView& node, std::span<const Sizes> parts, int axis);

/// The order of axes that a Transpose gives.
std::vector<int> permutation_of(const NodeView& node, int rank);
/// The slices of a Slice node, at most one an axis.
std::vector<Range> slices_of(const NodeView& node, const Sizes& from,
                             std::span<const Numbers* const> inputs);

}  // namespace troupe::graph::onnx
