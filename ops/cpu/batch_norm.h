#pragma once
// f32 batch norm of the CPU; the contracts are those of KernelTable.

#include "ops/kernels.h"

namespace troupe::cpu {

/// One pass over x. Sums are in f32 about a value of the channel within pieces of a few thousand
/// elements, in f64 over pieces; so neither a large mean nor many elements cost accuracy.
ChannelMoments channel_moments(const Stream& stream, const Tensor& x);

/// One pass. Dropout in the epilogue needs relu and no residual, since backward tells the dropped
/// elements by their zeros; other combinations throw Error (unsupported).
Tensor batch_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const ChannelMoments& moments, double epsilon, const NormEpilogue& epilogue);

/// Two passes: both reductions, then the gradient of x. What relu let through is computed again
/// from x with the arithmetic of batch_norm or, after a dropout, read from z.
NormGradients batch_norm_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                                  const Tensor& z, const Tensor& weight, const Tensor& bias,
                                  const ChannelMoments& moments, double epsilon,
                                  const NormEpilogue& epilogue, bool batch_moments);

/// norm(x) = x * slope + offset, as a pair of [C]; forward and backward use the same bits.
struct NormCoefficients {
  Tensor slope;
  Tensor offset;
};
NormCoefficients norm_coefficients(const char* operation, const Tensor& weight, const Tensor& bias,
                                   const ChannelMoments& moments, double epsilon,
                                   std::int64_t channels);

/// Throws for an epilogue that the fused kernels do not have.
void check_epilogue(const char* operation, const Tensor& x, const NormEpilogue& epilogue);

}  // namespace troupe::cpu
