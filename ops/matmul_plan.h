#pragma once
#include <cstdint>
#include <vector>

#include "ops/kernels.h"
#include "ops/outer_axes.h"

namespace troupe {

/// A product of tensors (KernelTable::matmul) as products of matrices [rows, depth] and [depth,
/// columns]: `results` of them, each a sum of `summed` neighbours in `products`. Neither factor is
/// empty, nor is the result.
struct MatmulPlan {
  std::int64_t rows = 0, depth = 0, columns = 0;
  std::int64_t a_stride = 0, b_stride = 0;  ///< from one row in memory to the next
  std::vector<MatrixProduct> products;
  std::int64_t results = 0, summed = 0;
};

/// A factor that all products have in common, such as a weight, makes one product of them.
MatmulPlan matmul_plan(const Shape& a, const Shape& b, const MatmulOptions& options,
                       const Shape& y);

}  // namespace troupe
