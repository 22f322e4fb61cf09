// Numbers for the bytes of images.

#include "ops/cuda/elements.h"
#include "ops/cuda/index_space.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/numbers.h"
#include "ops/reference/look_up.h"

namespace troupe::cuda {
namespace {

constexpr std::int64_t values_of_channel = 256;
constexpr int kept_channels = 4;  // of so many a block copies the values to its shared memory

struct Planes {
  std::int64_t channels, pixels;
  IndexSpace<2> space;  ///< the elements of y in memory; places: in x; the channel
};

/// N elements of y at once: of one channel or, `interleaved`, of one image.
template <int N, bool interleaved, class T>
__global__ void look_up_kernel(Planes planes, const std::uint8_t* x, const T* values, T* y) {
  __shared__ Unset<T> memory[kept_channels * values_of_channel];
  T* kept = reinterpret_cast<T*>(memory);
  const T* table = values;
  if (planes.channels <= kept_channels) {
    for (std::int64_t i = threadIdx.x; i < planes.channels * values_of_channel; i += blockDim.x)
      kept[i] = values[i];
    __syncthreads();
    table = kept;
  }
  for (std::int64_t i = first_index(); i < planes.space.count() / N; i += grid_threads()) {
    auto [source, channel] = planes.space.places(i * N).of;
    Pack<T, N> out;
    if constexpr (interleaved) {
#pragma unroll
      for (int j = 0; j < N; ++j) {
        out.at[j] = table[channel * values_of_channel + x[source]];
        source += planes.pixels;
        if (++channel < planes.channels) continue;
        channel = 0;
        source += 1 - planes.channels * planes.pixels;
      }
    } else {
      const auto bytes = *reinterpret_cast<const Pack<std::uint8_t, N>*>(x + source);
#pragma unroll
      for (int j = 0; j < N; ++j) out.at[j] = table[channel * values_of_channel + bytes.at[j]];
    }
    reinterpret_cast<Pack<T, N>*>(y)[i] = out;
  }
}

template <bool interleaved, class T>
void look_up_in(const Stream& stream, const Planes& planes, const std::uint8_t* x, const T* values,
                T* y) {
  constexpr int width = pack_width<T>;
  constexpr unsigned most = 2048;  // blocks: each of them copies the values
  const std::int64_t undivided = interleaved ? planes.channels * planes.pixels : planes.pixels;
  const bool packed = undivided % width == 0 && aligned_for_packs(x, y);
  const dim3 blocks(std::min(blocks_for(planes.space.count() / (packed ? width : 1)).x, most));
  Launch(stream, blocks, block_threads)(
      packed ? look_up_kernel<width, interleaved, T> : look_up_kernel<1, interleaved, T>, planes, x,
      values, y);
}

}  // namespace

Tensor look_up(const Stream& stream, const Tensor& x, const Tensor& values, Layout layout) {
  reference::check_look_up(x, values, layout);
  Tensor y = result(stream, x.shape(), values.dtype(), layout);
  if (y.element_count() == 0) return y;
  Planes planes{.channels = x.dim(1), .pixels = x.dim(2) * x.dim(3), .space = {}};
  const bool interleaved = layout == Layout::nhwc && planes.channels > 1;
  planes.space.add(x.dim(0), {{planes.channels * planes.pixels, 0}});
  if (interleaved) planes.space.add(planes.pixels, {{1, 0}});
  planes.space.add(planes.channels, {{planes.pixels, 1}});
  if (!interleaved) planes.space.add(planes.pixels, {{1, 0}});
  visit_stored(values.dtype(), [&]<class T>(T, auto) {
    const auto* bytes = input<std::uint8_t>(stream, x);
    const T* table = input<T>(stream, values);
    if (interleaved)
      look_up_in<true>(stream, planes, bytes, table, output<T>(stream, y));
    else
      look_up_in<false>(stream, planes, bytes, table, output<T>(stream, y));
  });
  return y;
}

}  // namespace troupe::cuda
