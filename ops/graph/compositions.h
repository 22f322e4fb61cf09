#pragma once
// Layers of PyTorch that are made of several operators of a graph. Both readers of files use them.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// Appends a node and returns its result.
using AddNode = std::function<ValueId(Operator operation, std::vector<ValueId> inputs)>;

/// The groups of channels of x [batch, channels, …] minus their mean, divided by
/// sqrt(variance + epsilon), times weight, plus bias (Y. Wu, K. He, "Group normalization", ECCV
/// 2018). `shape` is that of x; weight and bias are [channels] or absent. Throws Error{bad_shape}
/// if x has no such groups.
ValueId add_group_norm(const AddNode& add, ValueId x, Sizes shape, std::int64_t groups,
                       double epsilon, ValueId weight, ValueId bias);

/// x where it is positive, else x * slope.
ValueId add_leaky_relu(const AddNode& add, ValueId x, double slope);

/// Max pooling with PyTorch's ceil_mode: a last window may reach beyond the image. Its last row and
/// column are repeated there, which changes no maximum. Throws Error{bad_shape} for a window that
/// does not fit. `shape` is that of x [batch, channels, height, width].
ValueId add_ceil_max_pool(const AddNode& add, ValueId x, Sizes shape, const PoolOptions& options);

/// The Dropout that multiplies x by a random mask of this shape. nullopt unless the first axes of
/// the mask are those of x and its other axes have size 1.
std::optional<Dropout> dropout_of_mask(const Sizes& mask, const Sizes& x, double probability);

}  // namespace troupe::graph
