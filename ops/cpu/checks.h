#pragma once
#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

/// Throws unless both tensors have the same shape, layout and type f32.
void check_alike(const char* operation, const Tensor& a, const Tensor& b);

/// Throws unless `tensor` is a row-major f32 vector of `count` elements; `name` says which it is.
void check_vector(const char* operation, const char* name, const Tensor& tensor,
                  std::int64_t count);

}  // namespace troupe::cpu
