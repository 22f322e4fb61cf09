#pragma once
#include <cstdint>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace troupe::reference {

/// The indices into `rows` rows, which may be floating-point numbers. Throws Error{bad_shape} for
/// one that is not whole or not in [0, rows).
std::vector<std::int64_t> row_indices(const Tensor& indices, std::int64_t rows);

/// The shape of the rows of a weight [rows, features] at these indices.
Shape embedding_shape(const Shape& weight, const Shape& indices);

}  // namespace troupe::reference
