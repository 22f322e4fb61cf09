#pragma once
// The models that options files can name. To add one, write its header, include it here and append
// it to known_models.

#include <vector>

#include "ops/models/cifar_cnn.h"
#include "ops/models/file_model.h"
#include "ops/models/mlp.h"
#include "ops/models/mnist_cnn.h"
#include "ops/models/resnet.h"
#include "ops/models/wide_resnet.h"

namespace troupe {

inline std::vector<ModelSource> known_models() {
  return {WideResNet{}, MnistCnn{}, Mlp{},      ResNet18{},
          ResNet34{},   ResNet50{}, CifarCnn{}, FileModel{}};
}

}  // namespace troupe
