#include "apps/eval/evaluate.h"

#include "actors/evaluate.h"

namespace troupe {

EvaluationReport evaluate(const Options& options, const TensorSource& weights) {
  PipelineOptions pipeline = options.pipeline;
  pipeline.model = model_source(options);
  pipeline.data.dataset = open_dataset(dataset_source(options), dataset_options(options));
  const Evaluation result = evaluate(pipeline, weights);
  return {.loss = result.loss, .correct = result.correct, .count = result.count};
}

}  // namespace troupe
