#pragma once
#include <vector>

#include "actors/data/dataset.h"
#include "ops/models/model.h"
#include "ops/optim/optimizer.h"

namespace troupe {

/// The models, data sets and optimizers that a program adds to those that options files can name.
/// Each definition declares its own options.
struct Definitions {
  std::vector<ModelSource> models = {};
  std::vector<DatasetSource> datasets = {};
  std::vector<Optimizer> optimizers = {};
};

}  // namespace troupe
