#pragma once
#include "ops/kernels.h"
#include "ops/optim/optimizers.h"

namespace troupe {

/// PyTorch's SGD without dampening. Keeps the state tensor "momentum" where options.momentum is
/// not 0; in the first step it starts as the gradient itself.
OptimizerPtr sgd(const SgdOptions& options = {});
OptimizerEntry sgd_entry();

}  // namespace troupe
