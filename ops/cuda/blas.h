#pragma once
#include <cstddef>
#include <string>

#include "ops/cuda/product.h"

namespace troupe::cuda {

/// Computes the products of factors of one type, f32, f64, bf16 or f16, by cuBLASLt. Sums have the
/// type of the factors, or f32 for those of 16 bits; f32 is rounded to TF32 if the stream allows it
/// for matrices. The order of additions is the same from run to run. False, and nothing was done,
/// if it supports no algorithm for them (with a warning), or is not asked: for an address that 16
/// does not divide, for f64 with a bias, for a depth of 0, and for more products than an int
/// counts. Throws OutOfMemory, the error of a context that is lost, and Error{unsupported} if it
/// failed otherwise.
bool multiply_by_library(const Stream& stream, const Product& product, DType factors, const void* a,
                         const void* b, const void* bias, void* y);

/// "cuBLASLt 13.1.0".
std::string blas_version();

}  // namespace troupe::cuda
