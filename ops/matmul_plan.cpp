#include "ops/matmul_plan.h"

#include <algorithm>

namespace troupe {
namespace {

/// Whether matrix i of one tensor and matrix i of the other meet in a product, and no others.
bool are_paired(const Shape& a, const Shape& b) {
  const auto outer = [](const Shape& shape) {
    auto axes = shape.dims().first(static_cast<std::size_t>(shape.rank()) - 2);
    while (!axes.empty() && axes.front() == 1) axes = axes.subspan(1);
    return axes;
  };
  return std::ranges::equal(outer(a), outer(b));
}

}  // namespace

MatmulPlan matmul_plan(const Shape& a, const Shape& b, const MatmulOptions& o, const Shape& y) {
  MatmulPlan plan{.rows = y.dim(-2),
                  .depth = a.dim(o.transposed_a ? -2 : -1),
                  .columns = y.dim(-1),
                  .a_stride = a.dim(-1),
                  .b_stride = b.dim(-1)};
  const std::int64_t of_a = outer_count(a), of_b = outer_count(b), of_y = outer_count(y);
  // A common right factor (a weight): all rows of a are those of one matrix.
  if (of_b == 1 && of_y == of_a && !o.transposed_a) {
    plan.rows *= of_a;
    plan.products = {{}};
  } else if (of_y == 1 && are_paired(a, b) && o.transposed_a && !o.transposed_b) {
    // Its gradient: one sum over the rows of all matrices.
    plan.depth *= of_a;
    plan.products = {{}};
  } else {
    plan.products = matrix_products(a, b, y);
  }
  plan.results = plan.products.size() == 1 ? 1 : of_y;
  if (plan.results > 0) plan.summed = std::ssize(plan.products) / plan.results;
  return plan;
}

}  // namespace troupe
