#pragma once
#include "apps/options/options.h"
#include "apps/output/report.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// Counts the test set of these options with these weights, which must be all of the model's, in
/// the calling thread: each sample once, in the batches and the order of a training run, so that
/// the loss is the same. `step` is what the weights are of. Throws Error.
EvaluationReport evaluate(const Options& options, const TensorSource& weights, std::int64_t step);

}  // namespace troupe
