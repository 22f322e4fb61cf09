// What the loader of ops/gpu_library.cpp looks for in libtroupe_cuda.so.

#include <cstdlib>

#include "ops/cuda/library.h"

namespace {

// Each actor has two streams. With the eight hardware queues of CUDA's default they would wait for
// each other; CUDA reads this when it starts.
[[gnu::constructor]] void ask_for_more_queues() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

}  // namespace

extern "C" {
const troupe::GpuLibrary* troupe_cuda_library() { return &troupe::cuda::library(); }
const char* troupe_cuda_version() { return TROUPE_VERSION; }
}
