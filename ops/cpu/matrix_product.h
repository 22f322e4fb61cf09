#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace troupe::cpu {

/// A row-major matrix of f32 or f64 in memory, perhaps a part of a larger one.
template <class T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t stride = 0;  ///< from one row in memory to the next
  bool transposed = false;  ///< multiplied transposed
};

/// The sizes of a product of a [rows, depth] and b [depth, columns], as multiplied.
struct ProductSizes {
  std::int64_t rows = 0, depth = 0, columns = 0;
};

/// Bytes of working memory that multiply() needs; larger sizes never need less. 0 in f32.
std::size_t product_bytes_f64(const ProductSizes& sizes, bool transposed_b);
template <class T>
std::size_t product_bytes(const ProductSizes& sizes, bool transposed_b) {
  return std::is_same_v<T, double> ? product_bytes_f64(sizes, transposed_b) : 0;
}

/// y = factor * a b, or added to y; the rows of y lie `y_stride` apart. On the calling thread
/// alone; the order of the sums depends on the sizes only. A depth of 0 gives zeroes. `memory` has
/// product_bytes, 8-byte aligned. f32 uses oneDNN, which has no product of f64.
void multiply(const ProductSizes& sizes, float factor, const MatrixView<float>& a,
              const MatrixView<float>& b, bool adds, float* y, std::int64_t y_stride,
              std::byte* memory);
void multiply(const ProductSizes& sizes, double factor, const MatrixView<double>& a,
              const MatrixView<double>& b, bool adds, double* y, std::int64_t y_stride,
              std::byte* memory);

}  // namespace troupe::cpu
