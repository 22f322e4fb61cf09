// What the loader of ops/devices.cpp looks for in libtroupe_cuda.so.

#include "ops/cuda/backend.h"

extern "C" {
const troupe::Backend* troupe_cuda_backend() { return &troupe::cuda::backend(); }
const char* troupe_cuda_version() { return TROUPE_VERSION; }
}
