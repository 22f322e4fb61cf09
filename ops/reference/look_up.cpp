#include "ops/reference/look_up.h"

#include <fmt/format.h>

#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe::reference {
namespace {

/// T is any type of the size of the values, which are only moved.
template <class T>
void look_up_images_of(const Tensor& x, const Tensor& values, std::int64_t first, std::int64_t last,
                       const Tensor& y) {
  const std::int64_t channels = x.dim(1), plane = x.dim(2) * x.dim(3);
  const bool interleaved = y.layout() == Layout::nhwc;
  const std::int64_t next_pixel = interleaved ? channels : 1;
  for (std::int64_t n = first; n < last; ++n)
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::uint8_t* bytes = x.data<std::uint8_t>() + (n * channels + c) * plane;
      const T* of_channel = reinterpret_cast<const T*>(values.raw()) + c * 256;
      T* out = reinterpret_cast<T*>(y.raw()) + n * channels * plane + c * (interleaved ? 1 : plane);
      for (std::int64_t i = 0; i < plane; ++i) out[i * next_pixel] = of_channel[bytes[i]];
    }
}

}  // namespace

void look_up_images(const Tensor& x, const Tensor& values, std::int64_t first, std::int64_t last,
                    const Tensor& y) {
  if (size_of(y.dtype()) == 8) return look_up_images_of<std::uint64_t>(x, values, first, last, y);
  if (size_of(y.dtype()) == 4) return look_up_images_of<std::uint32_t>(x, values, first, last, y);
  look_up_images_of<std::uint16_t>(x, values, first, last, y);
}

void check_look_up(const Tensor& x, const Tensor& values, Layout layout) {
  const bool fits = x.dtype() == DType::u8 && x.rank() == 4 && x.layout() == Layout::row_major &&
                    is_floating(values.dtype()) && values.shape() == Shape{x.dim(1), 256} &&
                    values.layout() == Layout::row_major && layout != Layout::nchw16c;
  if (fits) return;
  throw Error(ErrorCode::internal,
              fmt::format("look_up: {} {} ({}) in values {} {}, as {}", name_of(x.dtype()),
                          to_string(x.shape()), name_of(x.layout()), name_of(values.dtype()),
                          to_string(values.shape()), name_of(layout)));
}

Tensor look_up(const Stream& stream, const Tensor& x, const Tensor& values, Layout layout) {
  check_look_up(x, values, layout);
  Tensor y = Tensor::empty(x.shape(), values.dtype(), stream.device, layout);
  look_up_images(x, values, 0, x.dim(0), y);
  return y;
}

}  // namespace troupe::reference
