#include "ops/reference/table.h"

#include "ops/reference/kernels.h"

namespace troupe::reference {

template <class T>
const KernelTable& table() {
  static const KernelTable kernels{
      .backend = "reference",
      .convolution = convolution<T>,
      .linear = linear<T>,
      .reorder = reorder<T>,
      .relu = relu<T>,
      .relu_backward = relu_backward<T>,
      .add = add<T>,
      .accumulate = accumulate<T>,
      .dropout = dropout<T>,
      .channel_moments = channel_moments<T>,
      .batch_norm = batch_norm<T>,
      .batch_norm_backward = batch_norm_backward<T>,
      .max_pool = max_pool<T>,
      .max_pool_backward = max_pool_backward<T>,
      .average_pool = average_pool<T>,
      .average_pool_backward = average_pool_backward<T>,
      .adaptive_average_pool = adaptive_average_pool<T>,
      .adaptive_average_pool_backward = adaptive_average_pool_backward<T>,
      .softmax_cross_entropy = softmax_cross_entropy<T>,
      .sgd = sgd<T>,
  };
  return kernels;
}

template const KernelTable& table<float>();
template const KernelTable& table<double>();

}  // namespace troupe::reference
