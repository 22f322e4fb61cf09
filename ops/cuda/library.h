#pragma once
#include "ops/gpu_library.h"

namespace troupe::cuda {

/// Of a GpuSurvey, the architectures that this library has kernels for.
GpuSurvey compiled_for();

const GpuLibrary& library();

}  // namespace troupe::cuda
