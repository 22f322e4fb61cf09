#pragma once
// The models that options files can name. To add one, write its header, include it here and append
// it to known_models.

#include <string>
#include <vector>

#include "ops/models/mlp.h"
#include "ops/models/mnist_cnn.h"
#include "ops/models/wide_resnet.h"

namespace troupe {

inline std::vector<ModelSource> known_models() { return {WideResNet{}, MnistCnn{}, Mlp{}}; }

/// The model of that name with its default options. Throws Error{bad_options} for an unknown name
/// (with the known ones).
ModelSource find_model(const std::string& name);

}  // namespace troupe
