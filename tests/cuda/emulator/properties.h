#pragma once
#include <cuda_runtime_api.h>

namespace cuda_on_cpu {

/// The emulated device's properties: the limits of an H100, as NVIDIA's data sheets have them.
cudaDeviceProp limits_of_an_h100();

}  // namespace cuda_on_cpu
