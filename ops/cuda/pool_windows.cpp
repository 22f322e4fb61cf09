#include "ops/cuda/pool_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/error.h"

namespace troupe::cuda {
namespace {

void check_image(const char* kernel, const Shape& x, Layout layout) {
  if (x.rank() != 4 || x.element_count() == 0)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}; it must be [N, C, H, W] and not empty", kernel,
                            to_string(x)));
  if (layout == Layout::nchw16c)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: {} in {} on a GPU", kernel, to_string(x), name_of(layout)),
                "reorder it to nhwc");
}

PoolAxis sliding_axis(const char* kernel, const Shape& x, int axis, std::int64_t size,
                      std::int64_t stride, std::int64_t padding) {
  const std::int64_t input = x[axis];
  if (size < 1 || stride < 1 || padding < 0 || padding > size / 2 || input + 2 * padding < size)
    throw Error(
        ErrorCode::bad_shape,
        fmt::format("{}: a window of {} with stride {} and padding {} on an input of {}", kernel,
                    size, stride, padding, to_string(x)),
        "the padding can be at most half the window, and the window must fit the padded input");
  const std::int64_t padded = input + 2 * padding;
  if (padded > UINT32_MAX)
    throw Error(ErrorCode::unsupported,
                fmt::format("{}: an axis of {} elements on a GPU", kernel, input));
  // A stride beyond the end makes one window, as one to the end does.
  return {input, (padded - size) / stride + 1, size, std::min(stride, padded), padding, false};
}

PoolWindows windows(const PoolAxis& h, const PoolAxis& w, const Shape& x, Layout layout) {
  const std::int64_t width = layout == Layout::nhwc ? x[1] : 1;
  return {h, w, x[0] * x[1] / width, width};
}

}  // namespace

PoolWindows sliding_windows(const char* kernel, const Shape& x, Layout layout,
                            const PoolOptions& o) {
  check_image(kernel, x, layout);
  return windows(sliding_axis(kernel, x, 2, o.kernel_h, o.stride_h, o.padding_h),
                 sliding_axis(kernel, x, 3, o.kernel_w, o.stride_w, o.padding_w), x, layout);
}

PoolWindows adaptive_windows(const char* kernel, const Shape& x, Layout layout, std::int64_t out_h,
                             std::int64_t out_w) {
  check_image(kernel, x, layout);
  if (out_h < 1 || out_w < 1)
    throw Error(ErrorCode::bad_shape, fmt::format("{}: an output of size {} x {} from {}", kernel,
                                                  out_h, out_w, to_string(x)));
  return windows({x[2], out_h, 0, 0, 0, true}, {x[3], out_w, 0, 0, 0, true}, x, layout);
}

Shape pooled_shape(const Shape& x, const PoolWindows& windows) {
  return {x[0], x[1], windows.h.output, windows.w.output};
}

void check_pooled(const char* kernel, const Tensor& grad, const Shape& x,
                  const PoolWindows& windows, DType dtype, Layout layout) {
  const Shape wanted = pooled_shape(x, windows);
  if (grad.shape() == wanted && grad.dtype() == dtype && grad.layout() == layout) return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: the gradient is {} {} in {}; it must be {} {} in {}", kernel,
                          name_of(grad.dtype()), to_string(grad.shape()), name_of(grad.layout()),
                          name_of(dtype), to_string(wanted), name_of(layout)));
}

}  // namespace troupe::cuda
