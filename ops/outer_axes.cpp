#include "ops/outer_axes.h"

#include <algorithm>
#include <array>

namespace troupe {
namespace {

constexpr int most = Shape::max_rank - 2;
using Strides = std::array<std::int64_t, most>;

/// The size of an outer axis, counted from the innermost one; 1 where there is none.
std::int64_t outer_size(const Shape& shape, int axis) {
  const int index = shape.rank() - 3 - axis;
  return index < 0 ? 1 : shape[index];
}

/// By how many matrices a step along each outer axis moves; 0 where the axis is broadcast.
Strides strides_of(const Shape& shape) {
  Strides strides{};
  std::int64_t stride = 1;
  for (int axis = 0; axis < most; ++axis) {
    const std::int64_t size = outer_size(shape, axis);
    strides[static_cast<std::size_t>(axis)] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return strides;
}

}  // namespace

std::int64_t outer_count(const Shape& shape) {
  std::int64_t count = 1;
  for (int axis = 0; axis < most; ++axis) count *= outer_size(shape, axis);
  return count;
}

std::vector<MatrixProduct> matrix_products(const Shape& a, const Shape& b, const Shape& y) {
  const Strides of_a = strides_of(a), of_b = strides_of(b), of_y = strides_of(y);
  std::vector<MatrixProduct> products{{}};
  // From the innermost axis out, so that the last one varies slowest.
  for (int axis = 0; axis < most; ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    const std::int64_t left = outer_size(a, axis), right = outer_size(b, axis);
    const std::int64_t size = left == 1 ? right : left;  // 0 if either is empty
    const std::size_t inner = products.size();
    if (size == 0) return {};
    for (std::int64_t index = 1; index < size; ++index)
      for (std::size_t p = 0; p < inner; ++p)
        products.push_back({products[p].a + index * of_a[i], products[p].b + index * of_b[i],
                            products[p].y + index * of_y[i]});
  }
  std::ranges::stable_sort(products, {}, &MatrixProduct::y);
  return products;
}

}  // namespace troupe
