// Images that lie on the device, moved and mirrored.

#include "ops/cuda/elements.h"
#include "ops/cuda/index_space.h"
#include "ops/cuda/kernels.h"
#include "ops/reference/take_images.h"

namespace troupe::cuda {
namespace {

struct Images {
  std::int64_t count, channels, height, width;
};

__device__ inline bool is_within(std::int64_t index, std::int64_t size) {
  return 0 <= index && index < size;
}

/// N pixels of a line at once. Their loads are single bytes, because a window begins at any of
/// them; neighbouring threads share the cache lines. `space`: the packs of y; places: the row of
/// windows, channel, line and column.
template <int N>
__global__ void take_images_kernel(IndexSpace<4> space, Images images, const std::uint8_t* x,
                                   const std::int64_t* windows, std::uint8_t* y) {
  for (std::int64_t i = first_index(); i < space.count(); i += grid_threads()) {
    const auto [n, channel, h, w] = space.places(i).of;
    const std::int64_t* window = windows + n * reference::window_numbers;
    const std::int64_t image = window[0], line = window[1] + window[2] * h;
    Pack<std::uint8_t, N> out{};
    if (is_within(image, images.count) && is_within(line, images.height)) {
      const std::int64_t plane = image * images.channels + channel;
      const std::uint8_t* from = x + (plane * images.height + line) * images.width;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        const std::int64_t column = window[3] + window[4] * (w + j);
        if (is_within(column, images.width)) out.at[j] = from[column];
      }
    }
    reinterpret_cast<Pack<std::uint8_t, N>*>(y)[i] = out;
  }
}

template <int N>
void take(const Stream& stream, const Images& images, const Tensor& x, const Tensor& windows,
          const Tensor& y) {
  IndexSpace<4> space;
  space.add(y.dim(0), {{1, 0, 0, 0}});
  space.add(images.channels, {{0, 1, 0, 0}});
  space.add(images.height, {{0, 0, 1, 0}});
  space.add(images.width / N, {{0, 0, 0, N}});
  Launch(stream, blocks_for(space.count()), block_threads)(
      take_images_kernel<N>, space, images, input<std::uint8_t>(stream, x),
      input<std::int64_t>(stream, windows), output<std::uint8_t>(stream, y));
}

}  // namespace

Tensor take_images(const Stream& stream, const Tensor& x, const Tensor& windows) {
  constexpr int several = 4;
  Tensor y = result(stream, reference::taken_shape(x, windows), DType::u8);
  if (y.element_count() == 0) return y;
  const Images images{x.dim(0), x.dim(1), x.dim(2), x.dim(3)};
  if (images.width % several == 0)
    take<several>(stream, images, x, windows, y);
  else
    take<1>(stream, images, x, windows, y);
  return y;
}

}  // namespace troupe::cuda
