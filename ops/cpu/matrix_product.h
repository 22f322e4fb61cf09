#pragma once
#include <cstdint>

#include "ops/cpu/onednn.h"

namespace troupe::cpu {

/// A row-major matrix of f32 or f64 in memory, perhaps a part of a larger one.
template <class T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t stride = 0;  ///< from one row in memory to the next
  bool transposed = false;  ///< multiplied transposed
};

/// y = factor * a b, or added to y, for a [rows, depth] and b [depth, columns] as multiplied; the
/// rows of y lie `y_stride` apart. On the calling thread alone; the order of the sums depends on
/// the sizes only. The sizes are at least 1.
struct ProductSizes {
  std::int64_t rows = 0, depth = 0, columns = 0;
};
dnnl_status_t multiply(const ProductSizes& sizes, float factor, const MatrixView<float>& a,
                       const MatrixView<float>& b, bool adds, float* y, std::int64_t y_stride);
/// oneDNN multiplies no f64: a product by ops/cpu/f64_products.h, which does not fail.
dnnl_status_t multiply(const ProductSizes& sizes, double factor, const MatrixView<double>& a,
                       const MatrixView<double>& b, bool adds, double* y, std::int64_t y_stride);

}  // namespace troupe::cpu
