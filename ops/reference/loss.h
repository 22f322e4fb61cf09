#pragma once
#include "runtime/tensor/tensor.h"

namespace troupe::reference {

/// Throws unless each of the targets is in [0, classes).
void check_targets(const Tensor& targets, std::int64_t classes);

}  // namespace troupe::reference
