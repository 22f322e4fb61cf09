#pragma once
// Options as the layers below understand them.

#include "actors/data/augment.h"
#include "actors/data/dataset.h"
#include "apps/options/options.h"
#include "ops/models/model.h"

namespace troupe {

/// The model that these options ask for; the size of a sample follows from the data.
ModelOptions model_options(const Options& options);

/// f32 or f64.
DType precision_of(const Options& options);

DatasetOptions dataset_options(const Options& options);

/// With the augmentations for training, without them for counting a test set.
TransformOptions transform_options(const Options& options, Split split);

}  // namespace troupe
