#pragma once
#include <cstdint>
#include <vector>

#include "runtime/tensor/shape.h"

namespace troupe {

/// A product of two of the matrices that tensors [..., rows, columns] consist of, by their numbers.
struct MatrixProduct {
  std::int64_t a = 0, b = 0;
  std::int64_t y = 0;  ///< to which it is added
};

/// The products of KernelTable::matmul. Those of one result are neighbours, in the order of the
/// outer axes along which they are added up.
std::vector<MatrixProduct> matrix_products(const Shape& a, const Shape& b, const Shape& y);

/// The product of all sizes but the last two.
std::int64_t outer_count(const Shape& shape);

}  // namespace troupe
