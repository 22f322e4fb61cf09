#include "ops/reference/norm_statistics.h"

#include "ops/reference/kernels.h"

namespace troupe::reference {

void write_statistics(const ChannelMoments& moments, double elements, Tensor& mean,
                      Tensor& unbiased_variance) {
  if (mean.defined()) copy({}, moments.mean, mean);
  if (unbiased_variance.defined())
    scale({}, moments.variance, elements / (elements - 1), unbiased_variance);
}

}  // namespace troupe::reference
