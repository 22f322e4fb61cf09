#pragma once
#include <cstdint>

#include "ops/cuda/kernels.h"

namespace troupe::cuda {

/// The weight and bias that a LayerKernel uses.
struct LayerWeights {
  Tensor weight, bias;
  std::uint64_t version = 0;

  /// Whether they are other ones than before.
  bool use(const Tensor& new_weight, const Tensor& new_bias, std::uint64_t new_version) {
    if (weight.defined() && version == new_version) return false;
    *this = {new_weight, new_bias, new_version};
    return true;
  }
};

/// bias_grad [C], if defined: the sum of grad over all axes but the second.
void bias_gradient(const Stream& stream, const Tensor& grad, Tensor& bias_grad);

}  // namespace troupe::cuda
