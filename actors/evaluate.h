#pragma once
#include "actors/evaluation.h"
#include "actors/pipeline.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe {

/// Evaluates a complete set of weights on the test set, in the calling thread, on the device of
/// `options.stream`; `data.workers` threads prepare at most as many batches ahead. Samples, batches
/// and their order are those of a training run, so that the loss is bitwise identical to that of a
/// run on this device. Throws Error{other_model} for weights of another model.
Evaluation evaluate(const PipelineOptions& options, const TensorSource& weights);

}  // namespace troupe
