#include "ops/cpu/table.h"

#include "ops/cpu/batch_norm.h"
#include "ops/cpu/convolution.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/elementwise.h"
#include "ops/cpu/linear.h"
#include "ops/cpu/loss.h"
#include "ops/cpu/pool.h"
#include "ops/cpu/reorder.h"
#include "ops/cpu/sgd.h"

namespace troupe::cpu {

const KernelTable& table() {
  static const KernelTable kernels{
      .backend = "cpu",
      .convolution = make_convolution,
      .linear = make_linear,
      .reorder = reorder,
      .relu = relu,
      .relu_backward = relu_backward,
      .add = add,
      .accumulate = accumulate,
      .dropout = dropout,
      .channel_moments = channel_moments,
      .batch_norm = batch_norm,
      .batch_norm_backward = batch_norm_backward,
      .max_pool = max_pool,
      .max_pool_backward = max_pool_backward,
      .average_pool = average_pool,
      .average_pool_backward = average_pool_backward,
      .adaptive_average_pool = adaptive_average_pool,
      .adaptive_average_pool_backward = adaptive_average_pool_backward,
      .softmax_cross_entropy = softmax_cross_entropy,
      .sgd = sgd,
  };
  return kernels;
}

}  // namespace troupe::cpu
