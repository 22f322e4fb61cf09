#pragma once
#include <cstddef>
#include <string>

#include "ops/cuda/product.h"

namespace troupe::cuda {

/// Computes products by cuBLASLt; f32 is rounded to TF32 if the stream allows it for matrices. The
/// order of additions is the same from run to run. Returns false, without computing, if it
/// supports no algorithm for them (with a warning), or is not asked: for an address that is no
/// multiple of 16, for f64 with a bias, for a depth of 0, and for more products than an int counts.
/// Throws OutOfMemory, the error of a context that is lost, and Error{unsupported} if it failed
/// otherwise.
bool multiply_by_library(const Stream& stream, const Product& product, const ProductTypes& types,
                         const void* a, const void* b, const void* bias, void* y);

/// "cuBLASLt 13.1.0".
std::string blas_version();

}  // namespace troupe::cuda
