#pragma once
#include "ops/kernels.h"

namespace troupe::cpu {

/// KernelTable::softmax_cross_entropy for f32.
LossOutput softmax_cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient);

}  // namespace troupe::cpu
