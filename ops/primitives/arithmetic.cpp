#include "ops/primitives/arithmetic.h"

#include "ops/primitives/broadcasting.h"

namespace troupe::primitives {

Tensor Arithmetic::forward(const Pass& pass, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shape(name, a.shape(), b.shape());
  const Layout layout = a.shape() == shape   ? a.layout()
                        : b.shape() == shape ? b.layout()
                                             : Layout::row_major;
  state.a = {a.shape(), a.layout()};
  state.b = {b.shape(), b.layout()};
  const Tensor left = as_operand(pass, a, shape, layout);
  const Tensor right = as_operand(pass, b, shape, layout);
  Tensor y = pass.kernels().arithmetic(pass.stream, operation, left, right);
  if (operation == ArithmeticOperation::multiply) state.left = left;
  if (operation == ArithmeticOperation::divide) state.quotient = y;
  if (operation == ArithmeticOperation::multiply || operation == ArithmeticOperation::divide)
    state.right = right;
  return y;
}

// With y = a / b: the gradient of a is grad / b, and that of b is -y grad / b.
void Arithmetic::input_gradient(const Pass& pass, const Tensor& grad,
                                std::span<InputGradient> inputs) {
  Tensor numerator = grad, left = state.left, right = state.right;
  double sign = 1.0;
  if (operation == ArithmeticOperation::subtract) sign = -1.0;
  if (operation == ArithmeticOperation::divide) {
    sign = -1.0;
    numerator =
        pass.kernels().arithmetic(pass.stream, ArithmeticOperation::divide, grad, state.right);
    left = state.quotient;
    right = {};
  }
  if (inputs[0].wanted)
    inputs[0].grad = operand_gradient(pass, numerator, right, state.a.shape, state.a.layout);
  if (inputs[1].wanted)
    inputs[1].grad = operand_gradient(pass, numerator, left, state.b.shape, state.b.layout, sign);
}

}  // namespace troupe::primitives
