#pragma once
// Sizes of memory that the code for GPUs uses and `troupe plan` counts.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace troupe {

/// The most that a plan of cuDNN may take. Fixed, so that the choice of a plan, and with it the
/// bits, do not depend on what is free.
inline constexpr std::size_t plan_workspace_limit = std::size_t{2} << 30;

/// The most that cuBLASLt may take for a product.
inline constexpr std::size_t product_workspace_limit = std::size_t{32} << 20;

/// The scores of a part of an attention, unless those of 64 tokens are more. The gradients' bits
/// depend on it.
inline constexpr std::int64_t scores_of_a_part = std::int64_t{1} << 25;

/// Tensors in pageable memory are copied through pinned blocks of this size, so that the host
/// copies one piece of a tensor while the device copies another.
inline constexpr std::size_t copied_piece_bytes = std::size_t{4} << 20;

/// The block of pinned memory for so many bytes.
constexpr std::size_t pinned_block(std::size_t bytes) {
  return std::bit_ceil(std::max<std::size_t>(bytes, 4096));
}

}  // namespace troupe
