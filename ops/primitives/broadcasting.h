#pragma once
// Broadcasting as NumPy's: shapes are aligned at their last axis, and an axis of one element is
// repeated.

#include <string_view>

#include "ops/pass.h"

namespace troupe::primitives {

/// The shape that both are broadcast to. Throws Error{bad_shape} naming the primitive and both
/// shapes where two axes differ and neither has one element.
Shape broadcast_shape(std::string_view primitive, const Shape& a, const Shape& b);

/// The tensor as an operand of the kernels that broadcast to this shape and layout
/// (ops/kernel_list.inc): axes of one element are added in front, and the elements are reordered
/// where neither the layout nor the shape allows to read them as they are.
Tensor as_operand(const Pass& pass, const Tensor& tensor, const Shape& shape, Layout layout);

/// The gradient of an operand of this shape and layout: the sums of grad * factor (undefined: grad)
/// over the axes that were repeated, times `scale`.
Tensor operand_gradient(const Pass& pass, const Tensor& grad, const Tensor& factor,
                        const Shape& shape, Layout layout, double scale = 1.0);

}  // namespace troupe::primitives
