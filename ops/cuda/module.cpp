// What the program that opens this library looks up in it by name.

#include "ops/cuda/backend.h"

extern "C" {

/// Those of Troupe's version and of nothing else: both sides share classes, so both come from one
/// build.
const char* troupe_cuda_version() { return TROUPE_VERSION; }

const troupe::Backend* troupe_cuda_backend() { return &troupe::cuda::backend(); }
}
