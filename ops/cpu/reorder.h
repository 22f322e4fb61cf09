#pragma once
#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

/// Copies `from` into `to`: the same f32 shape in any two layouts. Throws Error{bad_shape} for
/// tensors of different shapes or types.
void reorder(const Stream& stream, const Tensor& from, Tensor& to);

/// `tensor` itself if it has this layout already, else a copy that has it.
Tensor in_layout(const Stream& stream, const Tensor& tensor, Layout layout);

}  // namespace troupe::cpu
