#pragma once
#include "ops/kernels.h"

namespace troupe::cpu {

/// KernelTable::sgd for f32: one pass over the arrays, with the update rule of PyTorch's SGD.
void sgd(const Stream& stream, const SgdOptions& options, const Tensor& weights,
         const Tensor& gradient, const Tensor& momentum, Tensor& new_weights, Tensor& new_momentum);

/// Pointers to the first element of a range; the new arrays may be the old ones.
struct SgdRange {
  const float* weights;
  const float* gradient;
  const float* momentum;
  float* new_weights;
  float* new_momentum;
};

}  // namespace troupe::cpu
