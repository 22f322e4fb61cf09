#pragma once
#include "ops/kernels.h"

namespace troupe::reference {

/// Writes the mean and the unbiased variance of channels of so many elements, f32 or f64, to the
/// tensors that are defined. Throws as copy and scale.
void write_statistics(const ChannelMoments& moments, double elements, Tensor& mean,
                      Tensor& unbiased_variance);

}  // namespace troupe::reference
