#pragma once
#include "apps/options/options.h"
#include "apps/output/report.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// Evaluates these weights, which must be all of the model's, on the test set, in the calling
/// thread. Samples, batches and their order are those of a training run, so that the loss is
/// bitwise identical. Throws Error.
EvaluationReport evaluate(const Options& options, const TensorSource& weights);

}  // namespace troupe
