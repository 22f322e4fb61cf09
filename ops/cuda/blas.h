#pragma once
#include "ops/cuda/product.h"

namespace troupe::cuda {

/// Computes the products by cuBLASLt. Sums have the type of the factors, f32 is not rounded to
/// TF32, and the order of additions is the same from run to run. False if it has no algorithm for
/// them; then nothing was done.
bool multiply_by_library(const Stream& stream, const Product& product, DType dtype, const void* a,
                         const void* b, const void* bias, void* y);

}  // namespace troupe::cuda
