#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/product.h"
#include "ops/matmul_plan.h"

namespace troupe::cuda {
namespace {

/// Whether the factors of all results are equally far from each other, and each is one product.
bool in_equal_steps(const MatmulPlan& plan) {
  if (plan.summed != 1) return false;
  const MatrixProduct second = plan.products.size() > 1 ? plan.products[1] : MatrixProduct{};
  for (std::size_t i = 0; i < plan.products.size(); ++i) {
    const auto n = static_cast<std::int64_t>(i);
    const MatrixProduct& p = plan.products[i];
    if (p.a != n * second.a || p.b != n * second.b || p.y != n) return false;
  }
  return true;
}

}  // namespace

Tensor matmul(const Stream& stream, const Tensor& a, const Tensor& b, const MatmulOptions& options,
              const Shape& shape) {
  Tensor y = result(stream, shape, a.dtype());
  if (y.element_count() == 0) return y;
  if (a.element_count() == 0 || b.element_count() == 0) {
    fill(stream, 0.0, y);
    return y;
  }
  const MatmulPlan plan = matmul_plan(a.shape(), b.shape(), options, shape);
  const std::int64_t a_size = plan.rows * plan.depth, b_size = plan.depth * plan.columns;
  Product product{.rows = plan.rows,
                  .depth = plan.depth,
                  .columns = plan.columns,
                  .transposed_a = options.transposed_a,
                  .transposed_b = options.transposed_b};
  if (in_equal_steps(plan)) {
    product.batches = std::ssize(plan.products);
    if (product.batches > 1) {
      product.a_step = plan.products[1].a * a_size;
      product.b_step = plan.products[1].b * b_size;
    }
    multiply(stream, product, a, 0, b, 0, {}, y, 0);
    return y;
  }
  for (std::size_t i = 0; i < plan.products.size(); ++i) {
    const MatrixProduct& p = plan.products[i];
    product.adds = i > 0 && plan.products[i - 1].y == p.y;
    multiply(stream, product, a, p.a * a_size, b, p.b * b_size, {}, y,
             p.y * plan.rows * plan.columns);
  }
  return y;
}

}  // namespace troupe::cuda
