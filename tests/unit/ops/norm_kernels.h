#pragma once
// Kernels of batch norms, without the places that layers have for what they write.

#include "ops/kernels.h"

namespace troupe {

inline ChannelMoments moments_by(decltype(KernelTable::channel_moments) kernel,
                                 const Stream& stream, const Tensor& x) {
  Tensor none;
  return kernel(stream, x, {}, {}, 0.0, none, none);
}

inline NormGradients gradients_by(decltype(KernelTable::batch_norm_backward) kernel,
                                  const Stream& stream, const Tensor& grad, const Tensor& x,
                                  const Tensor& z, const Tensor& weight, const Tensor& bias,
                                  const ChannelMoments& moments, double epsilon,
                                  const NormEpilogue& epilogue, bool batch_moments) {
  Tensor none;
  return kernel(stream, grad, x, z, weight, bias, moments, epsilon, epilogue, batch_moments, none,
                none);
}

}  // namespace troupe
