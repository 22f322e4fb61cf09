#include <algorithm>

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
    for (std::int64_t s = 0; s < plan.summed; ++s) {
      const MatrixProduct& p = plan.products[static_cast<std::size_t>(result * plan.summed + s)];
      multiply(sizes, T(1), {left + p.a * a_size + skipped, plan.a_stride, options.transposed_a},
               {right + p.b * b_size, plan.b_stride, options.transposed_b}, s > 0,
               to + p.y * y_size + first * plan.columns, plan.columns, memory);
    }
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
