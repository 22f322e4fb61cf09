#pragma once
// f32 pooling of the CPU; the contracts are those of KernelTable.

#include "ops/kernels.h"

namespace troupe::cpu {

Tensor max_pool(const Stream& stream, const Tensor& x, const PoolOptions& options);
/// Finds the largest elements again, so that forward need not keep their places.
Tensor max_pool_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                         const PoolOptions& options);

Tensor average_pool(const Stream& stream, const Tensor& x, const PoolOptions& options);
/// The result has grad's layout.
Tensor average_pool_backward(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                             const PoolOptions& options);

Tensor adaptive_average_pool(const Stream& stream, const Tensor& x, std::int64_t out_h,
                             std::int64_t out_w);
/// The result has grad's layout.
Tensor adaptive_average_pool_backward(const Stream& stream, const Tensor& grad,
                                      const Shape& x_shape);

}  // namespace troupe::cpu
