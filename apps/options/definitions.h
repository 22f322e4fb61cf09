#pragma once
#include <vector>

#include "actors/data/dataset.h"
#include "ops/models/model.h"
#include "ops/optim/optimizer.h"

namespace troupe {

/// What a program adds to the models, data sets and optimizers that options files can name. Each
/// brings its options with it.
struct Definitions {
  std::vector<ModelSource> models = {};
  std::vector<DatasetSource> datasets = {};
  std::vector<Optimizer> optimizers = {};
};

}  // namespace troupe
