#pragma once
// What forward and backward of batch norm share. Both take f32 and f64.

#include "ops/kernels.h"

namespace troupe::cpu {

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
