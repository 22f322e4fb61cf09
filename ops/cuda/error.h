#pragma once
#include <cuda_runtime_api.h>

#include <source_location>
#include <string>

#include "runtime/tensor/out_of_memory.h"

namespace troupe::cuda {

/// Throws the Error of a CUDA call that failed: what was asked, what CUDA answered, and what to do.
/// `where` names the call's place in messages of broken invariants.
void check(cudaError_t status, const char* operation,
           std::source_location where = std::source_location::current());

/// "out of memory on cuda:0: {what}": the error of a call that found no memory on the current
/// device.
OutOfMemory out_of_device_memory(const std::string& what, std::string remedy);

}  // namespace troupe::cuda
