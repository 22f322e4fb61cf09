#pragma once
// What both readers of files need: layers of PyTorch that are made of several operators of a graph.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// The reason (Lacking) for operators in the form that they have in evaluation mode.
inline constexpr const char* evaluation_mode =
    "the model was exported in evaluation mode, and cannot be trained as it is";

/// Appends a node and returns its result.
using AddNode = std::function<ValueId(Operator operation, std::vector<ValueId> inputs)>;

/// The groups of channels of x [batch, channels, …] minus their mean, divided by
/// sqrt(variance + epsilon), times weight, plus bias (Y. Wu, K. He, "Group normalization", ECCV
/// 2018). `shape` is that of x; weight and bias are [channels] or absent. Throws Error{bad_shape}
/// if x has no such groups.
ValueId add_group_norm(const AddNode& add, ValueId x, Sizes shape, std::int64_t groups,
                       double epsilon, ValueId weight, ValueId bias);

/// x divided by the root of the mean square of its last `axes` axes (B. Zhang, R. Sennrich, "Root
/// mean square layer normalization", NeurIPS 2019), times weight, which has these axes or is
/// absent. `shape` is that of x. Throws Error{bad_shape} if x has too few axes or depends on
/// samples there.
ValueId add_rms_norm(const AddNode& add, ValueId x, const Sizes& shape, std::size_t axes,
                     double epsilon, ValueId weight);

/// x where it is positive, else x * slope.
ValueId add_leaky_relu(const AddNode& add, ValueId x, double slope);

/// Max pooling with PyTorch's ceil_mode: a last window may reach beyond the image. Its last row and
/// column are repeated there, which changes no maximum. Throws Error{bad_shape} for a window that
/// does not fit. `shape` is that of x [batch, channels, height, width].
ValueId add_ceil_max_pool(const AddNode& add, ValueId x, Sizes shape, const PoolOptions& options);

/// Sequences [batch, channels, steps] as images [batch, channels, 1, steps], and back: the same
/// elements in the same order. Layers of sequences are layers of such images, with kernels of
/// height 1.
bool are_sequences(const Sizes& shape);
Sizes as_images(const Sizes& sequences);
Sizes as_sequences(const Sizes& images);

/// The Dropout that multiplies x by a random mask of this shape. nullopt unless the first axes of
/// the mask are those of x and its other axes have size 1.
std::optional<Dropout> dropout_of_mask(const Sizes& mask, const Sizes& x, double probability);

}  // namespace troupe::graph
