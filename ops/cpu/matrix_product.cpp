#include "ops/cpu/matrix_product.h"

#include <algorithm>

#include "ops/cpu/f64_products.h"
#include "ops/cpu/onednn.h"

namespace troupe::cpu {
namespace {

// Rows of b at a time: their part for one panel of columns fits in a core's cache.
constexpr std::int64_t block_depth = 512;

/// The working memory of a block, as numbers of its parts.
struct BlockMemory {
  std::int64_t packed, transposed, offsets;

  BlockMemory(const ProductSizes& sizes, bool transposed_b) {
    const std::int64_t depth = std::min(block_depth, sizes.depth);
    packed = PackedRows::elements(sizes.rows, depth);
    transposed = transposed_b ? depth * sizes.columns : 0;
    offsets = depth;
  }
};

double element(const MatrixView<double>& m, std::int64_t row, std::int64_t column) {
  return m.transposed ? m.data[column * m.stride + row] : m.data[row * m.stride + column];
}

}  // namespace

void multiply(const ProductSizes& sizes, float factor, const MatrixView<float>& a,
              const MatrixView<float>& b, bool adds, float* y, std::int64_t y_stride, std::byte*) {
  if (sizes.depth == 0 || sizes.columns == 0) {
    for (std::int64_t row = 0; row < sizes.rows && !adds; ++row)
      std::fill_n(y + row * y_stride, sizes.columns, 0.0f);
    return;
  }
  use_one_thread();
  check_status(dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', sizes.rows,
                          sizes.columns, sizes.depth, factor, a.data, a.stride, b.data, b.stride,
                          adds ? 1.0f : 0.0f, y, y_stride));
}

std::size_t product_bytes_f64(const ProductSizes& sizes, bool transposed_b) {
  const BlockMemory parts(sizes, transposed_b);
  static_assert(sizeof(std::int64_t) == sizeof(double));
  return static_cast<std::size_t>(parts.packed + parts.transposed + parts.offsets) * sizeof(double);
}

void multiply(const ProductSizes& sizes, double factor, const MatrixView<double>& a,
              const MatrixView<double>& b, bool adds, double* y, std::int64_t y_stride,
              std::byte* memory) {
  const BlockMemory parts(sizes, b.transposed);
  auto* const packed = reinterpret_cast<double*>(memory);
  double* const transposed = packed + parts.packed;
  auto* const offsets = reinterpret_cast<std::int64_t*>(transposed + parts.transposed);
  std::int64_t first = 0;
  do {
    const std::int64_t depth = std::min(block_depth, sizes.depth - first);
    const PackedRows rows = PackedRows::in(
        packed, sizes.rows, depth,
        [&](std::int64_t row, std::int64_t k) { return factor * element(a, row, first + k); });
    const std::int64_t stride = b.transposed ? sizes.columns : b.stride;
    if (b.transposed)
      for (std::int64_t column = 0; column < stride; ++column)
        for (std::int64_t k = 0; k < depth; ++k)
          transposed[k * stride + column] = element(b, first + k, column);
    for (std::int64_t k = 0; k < depth; ++k) offsets[k] = k * stride;
    add_scaled_rows(rows, b.transposed ? transposed : b.data + first * stride, offsets,
                    sizes.columns, {.adds = adds || first > 0}, y, y_stride);
    first += depth;
  } while (first < sizes.depth);
}

}  // namespace troupe::cpu
