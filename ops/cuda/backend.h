#pragma once
#include "runtime/tensor/backend.h"

namespace troupe::cuda {

/// The NVIDIA GPUs of this process. Only device 0 is used.
const Backend& backend();

}  // namespace troupe::cuda
