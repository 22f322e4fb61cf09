#include <algorithm>

#include "ops/outer_axes.h"
#include "ops/reference/kernels.h"

namespace troupe::reference {

Tensor matmul(const Stream&, const Tensor& a, const Tensor& b, const MatmulOptions& options,
              const Shape& shape) {
  Tensor y = Tensor::empty(shape, DType::f64, a.device());
  std::ranges::fill(y.elements<double>(), 0.0);
  const std::int64_t m = shape.dim(-2), n = shape.dim(-1);
  const std::int64_t k = a.dim(options.transposed_a ? -2 : -1);
  const std::int64_t a_row = options.transposed_a ? 1 : k, a_column = options.transposed_a ? m : 1;
  const std::int64_t b_row = options.transposed_b ? 1 : n, b_column = options.transposed_b ? k : 1;
  for (const MatrixProduct& product : matrix_products(a.shape(), b.shape(), shape)) {
    const double* left = a.data<double>() + product.a * m * k;
    const double* right = b.data<double>() + product.b * k * n;
    double* to = y.data<double>() + product.y * m * n;
    for (std::int64_t row = 0; row < m; ++row)
      for (std::int64_t i = 0; i < k; ++i)
        for (std::int64_t column = 0; column < n; ++column)
          to[row * n + column] +=
              left[row * a_row + i * a_column] * right[i * b_row + column * b_column];
  }
  return y;
}

}  // namespace troupe::reference
