#include "apps/options/options.h"

namespace troupe {

DatasetOptions dataset_options(const Options& options) {
  DatasetOptions dataset = options.dataset;
  dataset.shape = Shape(options.sample_shape);
  dataset.seed = options.pipeline.seed;
  return dataset;
}

ModelOptions model_options(const Options& options) {
  ModelOptions model = options.pipeline.model;
  if (options.dataset.name == "synthetic") {
    model.height = options.sample_shape.at(1);
    model.width = options.sample_shape.at(2);
  }
  return model;
}

}  // namespace troupe
