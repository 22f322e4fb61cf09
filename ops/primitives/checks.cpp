#include "ops/primitives/checks.h"

#include <fmt/format.h>

#include "runtime/error.h"

namespace troupe::primitives {

void check_images(std::string_view primitive, const Tensor& x, std::int64_t channels) {
  if (x.rank() != 4)
    throw Error(
        ErrorCode::bad_shape,
        fmt::format("{}: the input is {}, not (N, C, H, W)", primitive, to_string(x.shape())),
        "flatten only after the last layer that works on images");
  if (channels >= 0 && x.dim(1) != channels)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input {} has {} channels, the layer takes {}", primitive,
                            to_string(x.shape()), x.dim(1), channels),
                "check the layer's channels against those of the layer before it");
}

void check_window(std::string_view primitive, const Tensor& x, const PoolOptions& o) {
  check_images(primitive, x);
  const bool window = o.kernel_h > 0 && o.kernel_w > 0 && o.stride_h > 0 && o.stride_w > 0;
  const bool padding = o.padding_h >= 0 && o.padding_w >= 0 && 2 * o.padding_h <= o.kernel_h &&
                       2 * o.padding_w <= o.kernel_w;
  const bool fits =
      x.dim(2) + 2 * o.padding_h >= o.kernel_h && x.dim(3) + 2 * o.padding_w >= o.kernel_w;
  if (window && padding && fits) return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: a window of {}x{} with stride {}x{} and padding {}x{} does not fit "
                          "{}",
                          primitive, o.kernel_h, o.kernel_w, o.stride_h, o.stride_w, o.padding_h,
                          o.padding_w, to_string(x.shape())),
              "the padded image must hold the window, and padding be at most half of the window");
}

int checked_axis(std::string_view primitive, const Shape& shape, int axis) {
  const int index = axis < 0 ? axis + shape.rank() : axis;
  if (index >= 0 && index < shape.rank()) return index;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: {} has {} axes, and no axis {}", primitive, to_string(shape),
                          shape.rank(), axis),
              "axes count from 0, negative ones from the end");
}

Tensor in_layout(const Pass& pass, const Tensor& tensor, Layout layout) {
  if (tensor.layout() == layout) return tensor;
  if (tensor.dim(2) * tensor.dim(3) == 1 || tensor.dim(1) == 1) {
    const auto offset = static_cast<std::size_t>(tensor.raw() - tensor.storage()->data());
    return Tensor::view(tensor.storage(), offset, tensor.shape(), tensor.dtype(), layout);
  }
  Tensor result = Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device(), layout);
  pass.kernels().reorder(pass.stream, tensor, result);
  return result;
}

}  // namespace troupe::primitives
