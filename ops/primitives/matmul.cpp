#include "ops/primitives/matmul.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

/// Rows and columns of a factor, as it is multiplied.
struct Factor {
  std::int64_t rows = 0, columns = 0;

  Factor(const Shape& shape, bool transposed)
      : rows(shape.dim(transposed ? -1 : -2)), columns(shape.dim(transposed ? -2 : -1)) {}
};

[[noreturn]] void refuse(const Shape& a, const Shape& b) {
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: {} times {}", Matmul::name, to_string(a), to_string(b)),
              "the factors are [..., m, k] and [..., k, n], and their outer axes equal or 1");
}

Shape product_shape(const Shape& a, const Shape& b, const MatmulOptions& options) {
  if (a.rank() < 2 || b.rank() < 2) refuse(a, b);
  const Factor left(a, options.transposed_a), right(b, options.transposed_b);
  if (left.columns != right.rows) refuse(a, b);
  const int rank = std::max(a.rank(), b.rank());
  std::vector<std::int64_t> sizes;
  for (int axis = -rank; axis < -2; ++axis) {
    const std::int64_t of_a = -axis <= a.rank() ? a.dim(axis) : 1;
    const std::int64_t of_b = -axis <= b.rank() ? b.dim(axis) : 1;
    if (of_a != of_b && of_a != 1 && of_b != 1) refuse(a, b);
    sizes.push_back(of_a == 1 ? of_b : of_a);
  }
  sizes.insert(sizes.end(), {left.rows, right.columns});
  return Shape(std::span<const std::int64_t>(sizes));
}

}  // namespace

Tensor Matmul::forward(const Pass& pass, const Tensor& a, const Tensor& b) {
  const Shape shape = product_shape(a.shape(), b.shape(), options);
  state = {in_layout(pass, a, Layout::row_major), in_layout(pass, b, Layout::row_major), a.layout(),
           b.layout()};
  return pass.kernels().matmul(pass.stream, state.a, state.b, options, shape);
}

// With y = a b, the gradient of a is grad b^T, and that of b is a^T grad. Where a factor lies
// transposed, so does its gradient: the product is taken in the other order.
void Matmul::input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
  const auto matmul = pass.kernels().matmul;
  const auto [a, b, a_layout, b_layout] = state;
  const bool t_a = options.transposed_a, t_b = options.transposed_b;
  if (inputs[0].wanted) {
    const Tensor a_grad = t_a ? matmul(pass.stream, b, grad, {t_b, true}, a.shape())
                              : matmul(pass.stream, grad, b, {false, !t_b}, a.shape());
    inputs[0].grad = in_layout(pass, a_grad, a_layout);
  }
  if (inputs[1].wanted) {
    const Tensor b_grad = t_b ? matmul(pass.stream, grad, a, {true, t_a}, b.shape())
                              : matmul(pass.stream, a, grad, {!t_a, false}, b.shape());
    inputs[1].grad = in_layout(pass, b_grad, b_layout);
  }
}

}  // namespace troupe::primitives
