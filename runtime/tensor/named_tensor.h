#pragma once
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// A tensor with its state_dict key: the unit that checkpoints and exports are made of.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

}  // namespace troupe
