#pragma once
#include "runtime/tensor/backend.h"

namespace troupe::cpu {

/// f32 by oneDNN and vectorised kernels, f64 by the reference's loops.
const Backend& backend();

}  // namespace troupe::cpu
