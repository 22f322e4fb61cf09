#include "ops/reference/take_images.h"

#include <fmt/format.h>

#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe::reference {
namespace {

bool is_within(std::int64_t index, std::int64_t size) { return 0 <= index && index < size; }

}  // namespace

void take_windows(const Tensor& x, const Tensor& windows, std::int64_t first, std::int64_t last,
                  const Tensor& y) {
  const std::int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  std::uint8_t* out = y.data<std::uint8_t>() + first * channels * height * width;
  for (std::int64_t n = first; n < last; ++n) {
    const std::int64_t* window = windows.data<std::int64_t>() + n * window_numbers;
    const std::int64_t image = window[0];
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t h = 0; h < height; ++h)
        for (std::int64_t w = 0; w < width; ++w) {
          const std::int64_t line = window[1] + window[2] * h, column = window[3] + window[4] * w;
          const bool is_there =
              is_within(image, x.dim(0)) && is_within(line, height) && is_within(column, width);
          const std::int64_t place = ((image * channels + c) * height + line) * width + column;
          *out++ = is_there ? x.data<std::uint8_t>()[place] : std::uint8_t{0};
        }
  }
}

Shape taken_shape(const Tensor& x, const Tensor& windows) {
  const bool fits = x.dtype() == DType::u8 && x.rank() == 4 && x.layout() == Layout::row_major &&
                    windows.dtype() == DType::i64 && windows.rank() == 2 &&
                    windows.dim(1) == window_numbers && windows.layout() == Layout::row_major;
  if (fits) return x.shape().with_outer(windows.dim(0));
  throw Error(ErrorCode::internal,
              fmt::format("take_images: {} {} ({}) by windows {} {} ({})", name_of(x.dtype()),
                          to_string(x.shape()), name_of(x.layout()), name_of(windows.dtype()),
                          to_string(windows.shape()), name_of(windows.layout())));
}

Tensor take_images(const Stream& stream, const Tensor& x, const Tensor& windows) {
  Tensor y = Tensor::empty(taken_shape(x, windows), DType::u8, stream.device);
  take_windows(x, windows, 0, windows.dim(0), y);
  return y;
}

}  // namespace troupe::reference
