#pragma once
#include "ops/gpu_library.h"

namespace troupe::cuda {

/// Of a GpuSurvey, the architectures that this library has kernels for.
GpuSurvey compiled_for();

/// That of the device, 90 for sm_90.
int compute_capability();

const GpuLibrary& library();

}  // namespace troupe::cuda
