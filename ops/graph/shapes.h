#pragma once
// The shapes of a graph's values, which may depend on the number of samples.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "ops/graph/graph.h"

namespace troupe::graph {

/// "convolution", "batch_norm", …: for messages and lists.
std::string_view name_of(const Operator& operation);

/// "[batch, 3, 32, 32]", "[2*batch + 1]".
std::string to_string(const Sizes& sizes);

/// A fixed size.
inline Size fixed(std::int64_t size) { return {.fixed = size}; }
inline bool is_fixed(const Size& size) { return size.per_sample == 0; }
/// Why an operator is refused that sums over an axis that grows with the batch: the result for one
/// sample would depend on the other samples of the micro-batch.
inline constexpr std::string_view combines_samples =
    "it combines the samples of a batch (nn.MultiheadAttention needs batch_first=True for samples "
    "on the first axis)";
/// Whether the first axis has one element for each sample, and the others have fixed sizes.
bool has_batch_axis(const Sizes& sizes);

/// A shape as fixed sizes.
Sizes sizes_of(const Shape& shape);

/// The sizes that both are broadcast to, aligned at their last axis; nothing if they do not fit.
std::optional<Sizes> broadcast(std::span<const Size> a, std::span<const Size> b);

/// Whether a tensor with these sizes, which a file states, can exist: it has at most 2^48 elements
/// for one sample, and that also with each 0 as a 1, so that sums of sizes stay within 64 bits.
bool can_exist(const Sizes& sizes);

/// All of them multiplied. Throws Error{bad_shape} if the result exceeds 2^48 or is not
/// linear in the number of samples.
Size product(std::span<const Size> sizes);

/// The sizes with at most one -1 (Size::fixed) replaced so that the shape has as many elements as
/// `from`. Throws Error{bad_shape} if none does.
Sizes resolved(Sizes sizes, const Sizes& from);

/// For a number of samples. Throws Error{bad_shape} for more than Shape::max_rank axes.
Shape shape_for(const Sizes& sizes, std::int64_t samples);

/// An axis counted from the front. Throws Error{bad_shape} if it is not in [-rank, rank).
int axis_of(std::int64_t axis, std::size_t rank);

/// The shape of an operator's result. Throws Error{bad_shape} if the operator does not take inputs
/// of these shapes: the primitives that run it then take them for any number of samples. An absent
/// input is null.
Sizes shape_of(const Operator& operation, std::span<const Sizes* const> inputs);

}  // namespace troupe::graph
