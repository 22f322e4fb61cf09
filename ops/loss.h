#pragma once
#include "ops/kernels.h"

namespace troupe {

/// Loss of logits [N, classes] against targets i64 [N], as PyTorch's cross_entropy: summed over the
/// samples, with d(loss sum * scale) / d(logits) if requested. In training `scale` is 1 / samples
/// of the global batch, so that samples of a short micro-batch weigh as much as others.
/// `label_smoothing` is in [0, 1). Throws Error{bad_shape} for shapes that do not fit and for
/// targets outside [0, classes).
LossOutput softmax_cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient, double label_smoothing = 0.0);

/// LossOutput::totals, read by the caller.
struct LossTotals {
  double loss_sum = 0;
  std::int64_t correct = 0;
};
/// Waits until the totals are in the CPU's memory.
LossTotals read_totals(const Stream& stream, const LossOutput& output);

}  // namespace troupe
