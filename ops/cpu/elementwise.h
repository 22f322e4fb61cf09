#pragma once
// f32 elementwise kernels of the CPU; the contracts are those of KernelTable.

#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

Tensor relu(const Stream& stream, const Tensor& x);
Tensor relu_backward(const Stream& stream, const Tensor& y, const Tensor& grad);
Tensor add(const Stream& stream, const Tensor& a, const Tensor& b);
void accumulate(const Stream& stream, Tensor& a, const Tensor& b);

}  // namespace troupe::cpu
