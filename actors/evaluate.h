#pragma once
#include "actors/evaluation.h"
#include "actors/pipeline.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// Evaluates a complete set of weights on the test set, in the calling thread. Samples, batches and
/// their order are those of a training run, so that the loss is bitwise identical to the run's.
/// Throws Error{other_model} for weights of another model.
Evaluation evaluate(const PipelineOptions& options, const TensorSource& weights);

}  // namespace troupe
