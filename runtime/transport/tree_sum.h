#pragma once
#include <cstddef>
#include <span>

#include "runtime/tensor/dtype.h"

namespace troupe::transport {

/// Whether tree_sum adds such elements: f32, f64, bf16, f16, i32 and i64.
bool has_sum(DType dtype);

/// out[e] = the sum of parts[0][e], parts[1][e], ... in the binary tree ((0+1)+(2+3))+..., where a
/// missing right half passes the left. `out` may be one of the parts. bf16 and f16 are added in f32
/// and rounded (to nearest, ties to even) at every node, so that a tree whose branches were summed
/// elsewhere gives the same bits; integers wrap.
void tree_sum(DType dtype, std::span<const std::byte* const> parts, std::byte* out,
              std::size_t count);

}  // namespace troupe::transport
