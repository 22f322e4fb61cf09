#include <algorithm>

#include "ops/cpu/f64_products.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/pieces.h"
#include "ops/matmul_plan.h"

namespace troupe::cpu {
namespace {

/// How many pieces the rows of each result are divided into: each takes 0.1 ms or more.
std::int64_t row_pieces(const MatmulPlan& s) {
  constexpr std::int64_t most = 16, least_rows = 32;
  if (s.results >= most) return 1;
  const std::int64_t work = s.summed * s.rows * s.depth * s.columns;
  return std::clamp<std::int64_t>(work / 4'000'000, 1,
                                  std::clamp<std::int64_t>(s.rows / least_rows, 1, most));
}

}  // namespace

dnnl_status_t multiply(const ProductSizes& sizes, float factor, const MatrixView<float>& a,
                       const MatrixView<float>& b, bool adds, float* y, std::int64_t y_stride,
                       std::byte*) {
  if (sizes.depth == 0) {
    for (std::int64_t row = 0; row < sizes.rows && !adds; ++row)
      std::fill_n(y + row * y_stride, sizes.columns, 0.0f);
    return dnnl_success;
  }
  use_one_thread();
  return dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', sizes.rows, sizes.columns,
                    sizes.depth, factor, a.data, a.stride, b.data, b.stride, adds ? 1.0f : 0.0f, y,
                    y_stride);
}

namespace {

// Rows of b whose part under a panel of columns stays in a core's cache.
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

std::size_t product_bytes_f64(const ProductSizes& sizes, bool transposed_b) {
  const BlockMemory parts(sizes, transposed_b);
  static_assert(sizeof(std::int64_t) == sizeof(double));
  return static_cast<std::size_t>(parts.packed + parts.transposed + parts.offsets) * sizeof(double);
}

dnnl_status_t multiply(const ProductSizes& sizes, double factor, const MatrixView<double>& a,
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
  return dnnl_success;
}

namespace {

template <class T>
void multiply_all(const Stream& stream, const MatmulPlan& plan, const MatmulOptions& options,
                  const T* left, const T* right, T* to) {
  const std::int64_t a_size = plan.rows * plan.depth, b_size = plan.depth * plan.columns;
  const std::int64_t y_size = plan.rows * plan.columns;
  const std::int64_t each = row_pieces(plan);
  const auto piece = [&](std::size_t number, std::byte* memory) {
    const std::int64_t result = static_cast<std::int64_t>(number) / each;
    const std::int64_t part = static_cast<std::int64_t>(number) % each;
    const std::int64_t first = plan.rows * part / each;
    const ProductSizes sizes{plan.rows * (part + 1) / each - first, plan.depth, plan.columns};
    const std::int64_t skipped = options.transposed_a ? first : first * plan.a_stride;
    dnnl_status_t status = dnnl_success;
    for (std::int64_t s = 0; s < plan.summed && status == dnnl_success; ++s) {
      const MatrixProduct& p = plan.products[static_cast<std::size_t>(result * plan.summed + s)];
      status = multiply(sizes, T(1),
                        {left + p.a * a_size + skipped, plan.a_stride, options.transposed_a},
                        {right + p.b * b_size, plan.b_stride, options.transposed_b}, s > 0,
                        to + p.y * y_size + first * plan.columns, plan.columns, memory);
    }
    return status;
  };
  const ProductSizes largest{(plan.rows + each - 1) / each, plan.depth, plan.columns};
  run_pieces(stream, static_cast<std::size_t>(plan.results * each),
             product_bytes<T>(largest, options.transposed_b), piece);
}

template <class T>
void fill_product(const Stream& stream, const Tensor& a, const Tensor& b,
                  const MatmulOptions& options, Tensor& y) {
  if (a.element_count() == 0 || b.element_count() == 0)
    std::ranges::fill(y.elements<T>(), T(0));
  else
    multiply_all(stream, matmul_plan(a.shape(), b.shape(), options, y.shape()), options,
                 a.data<T>(), b.data<T>(), y.data<T>());
}

}  // namespace

Tensor matmul(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
              const Shape& shape) {
  Tensor y = Tensor::empty(shape, a.dtype(), stream.device);
  if (y.element_count() == 0) return y;
  if (y.dtype() == DType::f64)
    fill_product<double>(stream, a, b, options, y);
  else
    fill_product<float>(stream, a, b, options, y);
  return y;
}

}  // namespace troupe::cpu
