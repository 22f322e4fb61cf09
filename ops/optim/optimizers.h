#pragma once
// The optimizers that options files can name. To add one, write its header and source, include it
// here and append it to known_optimizers.

#include <vector>

#include "ops/optim/adam.h"
#include "ops/optim/sgd.h"

namespace troupe {

/// With the default hyper-parameters of options files.
inline std::vector<Optimizer> known_optimizers() {
  return {Sgd{.momentum = 0.9, .weight_decay = 0.0005}, Adam{}, AdamW{}};
}

/// The optimizer of a program that selects none.
inline Optimizer default_optimizer() { return Sgd{}; }

}  // namespace troupe
