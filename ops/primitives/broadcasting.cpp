#include "ops/primitives/broadcasting.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

/// The shape with axes of one element in front, so that it has this rank.
Shape with_rank(const Shape& shape, int rank) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank - shape.rank()), 1);
  sizes.insert(sizes.end(), shape.dims().begin(), shape.dims().end());
  return Shape(std::span<const std::int64_t>(sizes));
}

}  // namespace

Shape broadcast_shape(std::string_view primitive, const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  const Shape left = with_rank(a, rank), right = with_rank(b, rank);
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < rank; ++axis) {
    if (left[axis] != right[axis] && left[axis] != 1 && right[axis] != 1)
      throw Error(ErrorCode::bad_shape,
                  fmt::format("{}: {} and {} cannot be broadcast: sizes {} and {} differ",
                              primitive, to_string(a), to_string(b), left[axis], right[axis]),
                  "shapes are aligned at their last axis; sizes must be equal, or one of them 1");
    sizes.push_back(left[axis] == 1 ? right[axis] : left[axis]);
  }
  return Shape(std::span<const std::int64_t>(sizes));
}

Tensor as_operand(const Pass& pass, const Tensor& tensor, const Shape& shape, Layout layout) {
  if (tensor.layout() == layout && tensor.rank() == shape.rank()) return tensor;
  if (tensor.rank() < shape.rank()) {
    const Tensor rows = in_layout(pass, tensor, Layout::row_major);
    return as_operand(pass, rows.reshape(with_rank(rows.shape(), shape.rank())), shape, layout);
  }
  const bool same_in_rows = tensor.dim(1) == 1 || tensor.dim(2) * tensor.dim(3) == 1;
  return in_layout(pass, tensor, same_in_rows ? Layout::row_major : layout);
}

Tensor operand_gradient(const Pass& pass, const Tensor& grad, const Tensor& factor,
                        const Shape& shape, Layout layout, double scale) {
  const Shape aligned = with_rank(shape, grad.rank());
  Tensor sums;
  if (aligned == grad.shape()) {
    sums = grad;
    if (factor.defined())
      sums = pass.kernels().arithmetic(pass.stream, ArithmeticOperation::multiply, grad, factor);
    if (scale != 1.0) sums = pass.kernels().affine(pass.stream, sums, scale, 0.0);
  } else {
    sums = pass.kernels().sum_to(pass.stream, grad, factor, aligned, scale);
  }
  if (shape.rank() != grad.rank()) sums = in_layout(pass, sums, Layout::row_major).reshape(shape);
  return in_layout(pass, sums, layout);
}

}  // namespace troupe::primitives
