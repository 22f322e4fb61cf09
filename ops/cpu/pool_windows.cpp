#include "ops/cpu/pool_windows.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/cpu/parallel.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

void check_image(const Shape& x, const char* operation) {
  if (x.rank() != 4 || x.element_count() == 0)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}; it must be [N, C, H, W] and not empty", operation,
                            to_string(x)));
}

void note_form(AxisWindows& axis) {
  std::int64_t next = 0;
  axis.tiles = axis.pairs = true;
  for (std::size_t i = 0; i < axis.begin.size(); ++i) {
    axis.tiles = axis.tiles && axis.begin[i] == next;
    axis.pairs = axis.pairs && axis.end[i] - axis.begin[i] == 2;
    next = axis.end[i];
  }
  axis.tiles = axis.tiles && next == axis.input;
}

AxisWindows sliding_axis(std::int64_t input, std::int64_t kernel, std::int64_t stride,
                         std::int64_t padding, const Shape& x, const char* operation) {
  if (kernel < 1 || stride < 1 || padding < 0 || padding > kernel / 2 ||
      input + 2 * padding < kernel)
    throw Error(
        ErrorCode::bad_shape,
        fmt::format("{}: a window of {} with stride {} and padding {} on an input of {}", operation,
                    kernel, stride, padding, to_string(x)),
        "the padding can be at most half the window, and the window must fit the padded input");
  AxisWindows axis;
  axis.input = input;
  const std::int64_t count = (input + 2 * padding - kernel) / stride + 1;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t begin = i * stride - padding;
    axis.begin.push_back(std::max<std::int64_t>(begin, 0));
    axis.end.push_back(std::min(begin + kernel, input));
  }
  note_form(axis);
  return axis;
}

AxisWindows adaptive_axis(std::int64_t input, std::int64_t output, const Shape& x,
                          const char* operation) {
  if (output < 1)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: an output of size {} from {}", operation, output, to_string(x)));
  AxisWindows axis;
  axis.input = input;
  for (std::int64_t i = 0; i < output; ++i) {
    axis.begin.push_back(i * input / output);
    axis.end.push_back(((i + 1) * input + output - 1) / output);
  }
  note_form(axis);
  return axis;
}

PoolWindows windows(AxisWindows h, AxisWindows w, const Shape& x, Layout layout) {
  PoolWindows result;
  result.width = layout == Layout::nhwc ? x[1] : layout == Layout::nchw16c ? 16 : 1;
  result.images = x[0] * x[1] / result.width;
  result.output = {x[0], x[1], h.count(), w.count()};
  result.h = std::move(h);
  result.w = std::move(w);
  return result;
}

}  // namespace

PoolWindows PoolWindows::sliding(const Shape& x, Layout layout, const PoolOptions& options,
                                 const char* operation) {
  check_image(x, operation);
  return windows(
      sliding_axis(x[2], options.kernel_h, options.stride_h, options.padding_h, x, operation),
      sliding_axis(x[3], options.kernel_w, options.stride_w, options.padding_w, x, operation), x,
      layout);
}

PoolWindows PoolWindows::adaptive(const Shape& x, Layout layout, std::int64_t out_h,
                                  std::int64_t out_w, const char* operation) {
  check_image(x, operation);
  return windows(adaptive_axis(x[2], out_h, x, operation), adaptive_axis(x[3], out_w, x, operation),
                 x, layout);
}

std::int64_t PoolWindows::grain() const {
  return std::max<std::int64_t>(1, elements_per_thread / input_plane());
}

void PoolWindows::check_output(const Tensor& grad, Layout layout, const char* operation,
                               DType dtype) const {
  if (grad.shape() != output || grad.dtype() != dtype || grad.layout() != layout)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the gradient is {} {} in {}; it must be {} {} in {}", operation,
                            name_of(grad.dtype()), to_string(grad.shape()), name_of(grad.layout()),
                            name_of(dtype), to_string(output), name_of(layout)));
}

}  // namespace troupe::cpu
