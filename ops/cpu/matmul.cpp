#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/pieces.h"
#include "ops/outer_axes.h"

namespace troupe::cpu {
namespace {

/// A product of tensors as products of matrices: `results` of them, each a sum of `summed`
/// neighbours in `products`.
struct Plan {
  ProductSizes sizes;
  std::int64_t a_stride = 0, b_stride = 0;  ///< of the rows in memory
  std::vector<MatrixProduct> products;
  std::int64_t results = 0, summed = 0;
};

Plan plan_of(const Shape& a, const Shape& b, const MatmulOptions& o, const Shape& y) {
  Plan plan{{y.dim(-2), a.dim(o.transposed_a ? -2 : -1), y.dim(-1)}, a.dim(-1), b.dim(-1)};
  const std::int64_t of_a = outer_count(a), of_b = outer_count(b), of_y = outer_count(y);
  // A common right factor (a weight): all rows of a are those of one matrix.
  if (of_b == 1 && of_y == of_a && !o.transposed_a) {
    plan.sizes.rows *= of_a;
    plan.products = {{}};
  } else if (of_y == 1 && of_a == of_b && o.transposed_a && !o.transposed_b) {
    // Its gradient: one sum over the rows of all matrices.
    plan.sizes.depth *= of_a;
    plan.products = {{}};
  } else {
    plan.products = matrix_products(a, b, y);
  }
  plan.results = plan.products.size() == 1 ? 1 : of_y;
  if (plan.results > 0) plan.summed = std::ssize(plan.products) / plan.results;
  return plan;
}

/// How many pieces the rows of each result are divided into: each takes 0.1 ms or more.
std::int64_t row_pieces(const Plan& plan) {
  constexpr std::int64_t most = 16, least_rows = 32;
  const ProductSizes& s = plan.sizes;
  if (plan.results >= most) return 1;
  const std::int64_t work = plan.summed * s.rows * s.depth * s.columns;
  return std::clamp<std::int64_t>(work / 4'000'000, 1,
                                  std::clamp<std::int64_t>(s.rows / least_rows, 1, most));
}

}  // namespace

dnnl_status_t multiply(const ProductSizes& sizes, float factor, const MatrixView& a,
                       const MatrixView& b, bool adds, float* y, std::int64_t y_stride) {
  use_one_thread();
  return dnnl_sgemm(a.transposed ? 'T' : 'N', b.transposed ? 'T' : 'N', sizes.rows, sizes.columns,
                    sizes.depth, factor, a.data, a.stride, b.data, b.stride, adds ? 1.0f : 0.0f, y,
                    y_stride);
}

Tensor matmul(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
              const Shape& shape) {
  Tensor y = Tensor::empty(shape, DType::f32, stream.device);
  auto* const to = y.data<float>();
  if (y.element_count() == 0) return y;
  const Plan plan = plan_of(a.shape(), b.shape(), options, shape);
  if (a.element_count() == 0 || b.element_count() == 0) {
    std::ranges::fill(y.elements<float>(), 0.0f);
    return y;
  }
  const float *left = a.data<float>(), *right = b.data<float>();
  const auto& [rows, depth, columns] = plan.sizes;
  const std::int64_t a_size = rows * depth, b_size = depth * columns, y_size = rows * columns;
  const std::int64_t each = row_pieces(plan);
  const auto piece = [&](std::size_t number, std::byte*) {
    const std::int64_t result = static_cast<std::int64_t>(number) / each;
    const std::int64_t part = static_cast<std::int64_t>(number) % each;
    const std::int64_t first = plan.sizes.rows * part / each;
    const ProductSizes sizes{plan.sizes.rows * (part + 1) / each - first, plan.sizes.depth,
                             plan.sizes.columns};
    const std::int64_t skipped = options.transposed_a ? first : first * plan.a_stride;
    dnnl_status_t status = dnnl_success;
    for (std::int64_t s = 0; s < plan.summed && status == dnnl_success; ++s) {
      const MatrixProduct& p = plan.products[static_cast<std::size_t>(result * plan.summed + s)];
      status = multiply(sizes, 1.0f,
                        {left + p.a * a_size + skipped, plan.a_stride, options.transposed_a},
                        {right + p.b * b_size, plan.b_stride, options.transposed_b}, s > 0,
                        to + p.y * y_size + first * plan.sizes.columns, plan.sizes.columns);
    }
    return status;
  };
  run_pieces(stream, static_cast<std::size_t>(plan.results * each), 0, piece);
  return y;
}

}  // namespace troupe::cpu
