#include <string>

#include "ops/cuda/elements.h"
#include "ops/cuda/index_space.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/numbers.h"
#include "ops/cuda/philox.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

constexpr int run = 4;  // elements that one block of random numbers serves

/// Runs of four elements that follow each other in logical order. A tensor whose memory has that
/// order is one line of elements; otherwise each channel of each image is one.
struct Runs {
  IndexSpace<3> space;      ///< places: in memory; in logical order; in the plane
  std::int64_t plane = 0;   ///< elements of a channel
  std::int64_t stride = 1;  ///< between them, in memory
};

Runs runs_of(const Tensor& x) {
  const auto runs_in = [](std::int64_t plane) { return (plane + run - 1) / run; };
  Runs runs;
  if (x.layout() == Layout::row_major) {
    runs.plane = x.element_count();
    runs.space.add(runs_in(runs.plane), {{run, run, run}});
    return runs;
  }
  if (x.layout() != Layout::nhwc)
    throw Error(ErrorCode::unsupported, "dropout: a GPU has no tensors in nchw16c",
                "use the layouts row_major and nhwc");
  const std::int64_t channels = x.dim(1);
  runs.plane = x.dim(2) * x.dim(3);
  runs.stride = channels;
  runs.space.add(x.dim(0), {{channels * runs.plane, channels * runs.plane, 0}});
  runs.space.add(runs_in(runs.plane), {{run * channels, run, run}});
  runs.space.add(channels, {{1, runs.plane, 0}});  // neighbours are read by one warp
  return runs;
}

template <class T>
struct Drop {
  KernelKey random;
  std::uint32_t threshold;  ///< a number below it drops its element
  T scale;                  ///< of the others

  __device__ T operator()(T x, std::uint32_t number) const {
    return x * (number < threshold ? T(0) : scale);
  }
};

/// The numbers of the four elements from `element` on, which may begin within a block.
__device__ Pack<std::uint32_t, run> numbers_of(const KernelKey& random, std::int64_t element) {
  const auto block = static_cast<std::uint32_t>(element / run);
  const int shift = static_cast<int>(element % run);
  const Pack<std::uint32_t, run> a = philox_block(random, block);
  if (shift == 0) return a;
  const Pack<std::uint32_t, run> b = philox_block(random, block + 1);
  if (shift == 1) return {{a.at[1], a.at[2], a.at[3], b.at[0]}};
  if (shift == 2) return {{a.at[2], a.at[3], b.at[0], b.at[1]}};
  return {{a.at[3], b.at[0], b.at[1], b.at[2]}};
}

template <class S, class T>
__global__ void dropout_kernel(Drop<T> drop, Runs runs, bool packs, const S* x, S* y) {
  for (std::int64_t i = first_index(); i < runs.space.count(); i += grid_threads()) {
    const auto places = runs.space.places(i);
    const Pack<std::uint32_t, run> numbers = numbers_of(drop.random, places.of[1]);
    const std::int64_t left = runs.plane - places.of[2];
    if (packs && left >= run) {
      constexpr int width = pack_width<S> < run ? pack_width<S> : run;
#pragma unroll
      for (int p = 0; p < run; p += width) {
        auto pack = load_pack<S, width>(x, places.of[0] + p);
#pragma unroll
        for (int j = 0; j < width; ++j) pack.at[j] = drop(pack.at[j], numbers.at[p + j]);
        store_pack<S, width>(y, places.of[0] + p, pack);
      }
      continue;
    }
#pragma unroll
    for (int j = 0; j < run; ++j) {
      const std::int64_t place = places.of[0] + j * runs.stride;
      if (j < left) y[place] = converted<S>(drop(computed(x[place]), numbers.at[j]));
    }
  }
}

}  // namespace

Tensor dropout(const Stream& stream, const Tensor& x, double probability, const RandomKey& random) {
  if (!(probability >= 0.0 && static_cast<float>(probability) < 1.0f))
    throw Error(
        ErrorCode::bad_options,
        "dropout: the probability is " + std::to_string(probability) + "; it must be in [0, 1)",
        "check `dropout`");
  Tensor y = result_like(stream, x);
  if (x.element_count() == 0) return y;
  const Runs runs = runs_of(x);
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    const Drop<T> drop{kernel_key(stream, random), drop_threshold(probability),
                       T(1) / (T(1) - T(probability))};
    const S* from = input<S>(stream, x);
    S* to = output<S>(stream, y);
    const bool packs =
        x.layout() == Layout::row_major && aligned_for_packs(static_cast<const S*>(to), from);
    Launch(stream, blocks_for(runs.space.count()), block_threads)(dropout_kernel<S, T>, drop, runs,
                                                                  packs, from, to);
  });
  return y;
}

}  // namespace troupe::cuda
