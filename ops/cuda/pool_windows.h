#pragma once
#include "ops/kernels.h"

namespace troupe::cuda {

/// The windows of a pooling along one axis, of fewer than 2^32 elements with the padding.
struct PoolAxis {
  std::int64_t input, output;
  std::int64_t kernel, stride, padding;
  bool adaptive;  ///< windows [floor(i H / out), ceil((i + 1) H / out)) instead
};

/// How a pooling reads the memory of a tensor: `images` planes of rows of `width` channels.
struct PoolWindows {
  PoolAxis h, w;
  std::int64_t images, width;

  std::int64_t outputs() const { return images * h.output * w.output * width; }
  std::int64_t inputs() const { return images * h.input * w.input * width; }
};

/// Windows of a fixed size. Throws Error{bad_shape} for an x that is no image and for a window that
/// does not fit, with the values, Error{unsupported} for nchw16c.
PoolWindows sliding_windows(const char* kernel, const Shape& x, Layout layout,
                            const PoolOptions& options);
/// As PyTorch's AdaptiveAvgPool2d.
PoolWindows adaptive_windows(const char* kernel, const Shape& x, Layout layout, std::int64_t out_h,
                             std::int64_t out_w);
/// The shape of the result of a pooling of x.
Shape pooled_shape(const Shape& x, const PoolWindows& windows);
/// Throws Error{bad_shape} unless `grad` has the shape and the type of the result, in this layout.
void check_pooled(const char* kernel, const Tensor& grad, const Shape& x,
                  const PoolWindows& windows, DType dtype, Layout layout);

}  // namespace troupe::cuda
