#pragma once
#include <string_view>
#include <vector>

#include "ops/tape.h"

namespace troupe::primitives {

/// a + b, a - b, a * b or a / b, broadcast as in NumPy. The result has the layout of the operand
/// that has its shape, that of a if both have it; otherwise it is row-major. So images in any
/// layout times [N, C, 1, 1] or [C, 1, 1] stay in their layout. A product saves a and b, a
/// quotient b and itself.
struct Arithmetic {
  static constexpr std::string_view name = "arithmetic";

  ArithmeticOperation operation = ArithmeticOperation::add;
  struct Operand {
    Shape shape;
    Layout layout = Layout::row_major;
  };
  struct Saved {
    Operand a, b;
    Tensor left, right, quotient;  ///< as operands of the kernels
  } state = {};

  Tensor forward(const Pass& pass, const Tensor& a, const Tensor& b);
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs);
  std::vector<Tensor> saved() const { return {state.left, state.right, state.quotient}; }
};

/// y = x * factor + offset, in the layout of x.
struct Affine {
  static constexpr std::string_view name = "affine";

  double factor = 1.0, offset = 0.0;

  Tensor forward(const Pass& pass, const Tensor& x) {
    return pass.kernels().affine(pass.stream, x, factor, offset);
  }
  void input_gradient(const Pass& pass, const Tensor& grad, std::span<InputGradient> inputs) {
    inputs[0].grad = pass.kernels().affine(pass.stream, grad, factor, 0.0);
  }
};

}  // namespace troupe::primitives
