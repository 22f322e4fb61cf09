#pragma once
// What kernels of layers ask of their arguments. Apart from the kernels, since nvcc does not
// compile the checked format strings of fmt.

#include "ops/cuda/channels.h"
#include "ops/kernels.h"

namespace troupe::cuda {

/// A tensor as [outer, length, inner], of which a kernel goes through the middle axis.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1;
};
/// Throws Error{internal} unless x is row-major and has the axis.
Lines lines_of(const char* kernel, const Tensor& x, int axis);

/// Throws Error{bad_shape} unless x is [N, C, H, W] or [N, C], and Error{unsupported} for nchw16c.
Channels channels_of(const char* kernel, const Tensor& x);

/// Throws Error{bad_shape} unless `tensor` is a row-major vector of `count` elements of the type;
/// `name` says which it is.
void check_vector(const char* kernel, const char* name, const Tensor& tensor, std::int64_t count,
                  DType dtype);

/// Throws Error{bad_shape} unless x is [N, columns], row-major, with at least one column.
void check_matrix(const char* kernel, const Tensor& x);

/// Throws Error{bad_shape} for a residual that is not like x, Error{bad_options} for a wrong
/// probability, and Error{unsupported} for an epilogue that the fused kernels do not have.
void check_epilogue(const char* kernel, const Tensor& x, const NormEpilogue& epilogue);

/// Throws Error{bad_shape} unless the mask is row-major and has no more axes than q.
void check_mask(const char* kernel, const Tensor& mask, const Shape& q);

/// The rows of x; throws Error{bad_shape} unless x consists of rows of `features`.
std::int64_t rows_of(const char* kernel, const Tensor& x, std::int64_t features);

}  // namespace troupe::cuda
