#pragma once
#include "runtime/tensor/backend.h"

namespace troupe {

/// f32 by oneDNN and vectorised kernels; f64 by vectorised kernels for what takes most of the time,
/// and by the reference's loops.
const Backend& cpu_backend();

}  // namespace troupe
