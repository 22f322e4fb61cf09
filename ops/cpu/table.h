#pragma once
#include "ops/kernels.h"

namespace troupe::cpu {

/// The f32 kernels of this CPU: oneDNN for convolution, linear and reorder, Highway for the rest.
const KernelTable& table();

}  // namespace troupe::cpu
