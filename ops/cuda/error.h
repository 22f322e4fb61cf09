#pragma once
#include <cuda_runtime_api.h>

#include <source_location>

namespace troupe::cuda {

/// Throws the Error of a CUDA call that failed: what was asked, what CUDA answered, and what to do.
/// `where` names the call's place in messages of broken invariants.
void check(cudaError_t status, const char* operation,
           std::source_location where = std::source_location::current());

}  // namespace troupe::cuda
