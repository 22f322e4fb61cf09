#pragma once
#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

/// Throws unless both tensors have the same shape and layout, and this type.
void check_alike(const char* operation, const Tensor& a, const Tensor& b, DType dtype = DType::f32);

/// Throws unless `tensor` is a row-major vector of `count` elements of this type; `name` says which
/// it is.
void check_vector(const char* operation, const char* name, const Tensor& tensor, std::int64_t count,
                  DType dtype = DType::f32);

}  // namespace troupe::cpu
