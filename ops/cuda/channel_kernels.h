#pragma once
// The loops of kernels over a tensor that is seen as channels. A thread takes packs of N elements
// that lie side by side: where planes are innermost, they are of one channel; where channels are,
// of N channels.

#include "ops/cuda/channels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/workspace.h"

namespace troupe::cuda {

/// How the threads of a grid are laid out: each block has rows of `width` threads along the
/// innermost axis. The rows cover the samples (for sums of planes) or the planes. Threads that make
/// no whole row are idle.
struct Spread {
  int width = 1;
  std::int64_t parts = 1;  ///< of the samples, for sums

  __device__ int along() const { return static_cast<int>(threadIdx.x) % width; }
  __device__ int across() const { return static_cast<int>(threadIdx.x) / width; }
  __device__ int height() const { return block_threads / width; }
};

/// The row width that covers `packs` with the fewest rows: neighbours read neighbouring packs.
inline int width_for(std::int64_t packs) {
  const std::int64_t rows = std::max<std::int64_t>(1, (packs + block_threads - 1) / block_threads);
  return static_cast<int>(std::max<std::int64_t>(1, (packs + rows - 1) / rows));
}

/// Calls `f(constant<columns>, constant<N>)` with the form of kernels for such a tensor:
/// `columns` where channels are innermost, N elements at a time if the pointers allow it.
template <class S, class F, class... Pointers>
void with_form(const Channels& x, F&& f, const Pointers*... pointers) {
  constexpr int wide = pack_width<S>;
  const bool columns = x.inner == 1;
  const bool packed =
      (columns ? x.count : x.inner) % wide == 0 && aligned_for_packs<Pointers...>(pointers...);
  const auto call = [&]<bool by_columns, int N>() {
    f(std::bool_constant<by_columns>{}, std::integral_constant<int, N>{});
  };
  if (columns && packed) return call.template operator()<true, wide>();
  if (columns) return call.template operator()<true, 1>();
  if (packed) return call.template operator()<false, wide>();
  call.template operator()<false, 1>();
}

// --- element by element --------------------------------------------------------------------------

/// F: `Channel channel(c)` gives what is needed of a channel, `run<N, R>(e, sample, c, channels)`
/// does the elements from number e on, of channel c or of the N channels from c on. R is the
/// number of samples that are done at once, F::samples where channels are innermost and 1
/// elsewhere.
template <bool columns, int N, class F>
__global__ void each_element_kernel(F f, Channels x, Spread spread) {
  constexpr int held = columns ? N : 1, R = columns ? F::samples : 1;
  const std::int64_t inner = columns ? x.count : x.inner;
  const std::int64_t outer = columns ? x.samples : x.samples * x.count;
  const std::int64_t first = (blockIdx.x * std::int64_t{spread.height()} + spread.across()) * R;
  const std::int64_t step = gridDim.x * std::int64_t{spread.height()} * R;
  const std::int64_t begin = (blockIdx.y * std::int64_t{spread.width} + spread.along()) * N;
  const std::int64_t stride = gridDim.y * std::int64_t{spread.width} * N;
  if (spread.across() >= spread.height()) return;
  typename F::Channel channels[held];
  if constexpr (columns) {
    for (std::int64_t c = begin; c < inner; c += stride) {
#pragma unroll
      for (int j = 0; j < held; ++j) channels[j] = f.channel(c + j);
      for (std::int64_t sample = first; sample < outer; sample += step)
        f.template run<N, R>(sample * inner + c, sample, c, channels);
    }
  } else {
    for (std::int64_t plane = first; plane < outer; plane += step) {
      const std::int64_t c = plane % x.count;
      channels[0] = f.channel(c);
      for (std::int64_t i = begin; i < inner; i += stride)
        f.template run<N, R>(plane * inner + i, plane / x.count, c, channels);
    }
  }
}

/// `f` of every element; the pointers are those that f accesses by packs of S. F::samples divides
/// the number of samples.
template <class S, class F, class... Pointers>
void each_element(const Stream& stream, const Channels& x, const F& f,
                  const Pointers*... pointers) {
  if (x.elements() == 0) return;
  with_form<S>(
      x,
      [&]<bool columns, int N>(std::bool_constant<columns>, std::integral_constant<int, N>) {
        const std::int64_t packs = (columns ? x.count : x.inner) / N;
        const std::int64_t outer = columns ? x.samples : x.samples * x.count;
        const int width = width_for(packs);
        // A thread does about eight packs, so that what it needs of a channel costs little.
        const std::int64_t across =
            std::max<std::int64_t>(1, columns ? 8 : 8 * width / std::max<std::int64_t>(packs, 1));
        const std::int64_t height = block_threads / width * across;
        const std::int64_t along =
            std::min<std::int64_t>((packs + width - 1) / width, columns ? 65'535 : 8);
        const dim3 blocks(blocks_for(outer, static_cast<int>(height)).x,
                          static_cast<unsigned>(along));
        Launch(stream, blocks, block_threads)(each_element_kernel<columns, N, F>, f, x,
                                              Spread{.width = width});
      },
      pointers...);
}

// --- sums ----------------------------------------------------------------------------------------

/// Two sums of a channel.
struct ChannelSums {  // no initial values: an array of them in shared memory has none
  double first, second;

  __device__ ChannelSums& operator+=(const ChannelSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

/// Adds up what the threads of one column of the block have; those with `across` 0 get the sums.
template <int count>
__device__ void sum_across(ChannelSums (&values)[count], const Spread& spread) {
  __shared__ ChannelSums all[count][block_threads];
  const int place = static_cast<int>(threadIdx.x);
  __syncthreads();  // the previous sums have been read
#pragma unroll
  for (int i = 0; i < count; ++i) all[i][place] = values[i];
  for (int rows = spread.height(); rows > 1;) {
    const int half = (rows + 1) / 2;
    __syncthreads();
    if (spread.across() + half < rows)
#pragma unroll
      for (int i = 0; i < count; ++i) all[i][place] += all[i][place + half * spread.width];
    rows = half;
  }
#pragma unroll
  for (int i = 0; i < count; ++i) values[i] = all[i][place];
}

__device__ inline ChannelSums sum_of_block(const ChannelSums& value) {
  return {reduce_block(value.first, 0.0, Plus{}), reduce_block(value.second, 0.0, Plus{})};
}

/// For sum_channels_kernel: loads so many samples, and then adds them.
template <int count, int N, class F>
__device__ void add_samples(const F& f, std::int64_t channels, std::int64_t sample,
                            std::int64_t step, std::int64_t c, typename F::Part (&sums)[N]) {
  typename F::template Loaded<N> loaded[count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    const std::int64_t number = sample + i * step;
    loaded[i] = f.template load<N>(number * channels + c, number);
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j].add(loaded[i], j);
    f.store((sample + i * step) * channels + c, loaded[i]);
  }
}

/// F: `Part part(c)` begins a thread's sums of a channel; `Loaded<N> load<N>(e, sample)` reads
/// elements, without computing with them; `part.add(loaded, j)` adds the one in place j;
/// `store(e, loaded)` writes what came of them, if anything; `part.sums()` ends. A block does one
/// part of the samples, of one channel or of `width` packs of channels. Where channels are
/// innermost, F::ahead samples are loaded before one is added.
template <bool columns, int N, class F>
__global__ void sum_channels_kernel(F f, Channels x, Spread spread, ChannelSums* partials) {
  // From the last part to the first: the end of what the kernel before has written may be in a
  // cache, and the kernel behind begins with what this one reads last.
  const std::int64_t part = spread.parts - 1 - blockIdx.y;
  const std::int64_t begin = x.samples * part / spread.parts;
  const std::int64_t end = x.samples * (part + 1) / spread.parts;
  if constexpr (columns) {
    const std::int64_t c = (blockIdx.x * std::int64_t{spread.width} + spread.along()) * N;
    const bool inside = c < x.count && spread.across() < spread.height();
    typename F::Part sums[N];
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] = f.part(inside ? c + j : 0);
    const std::int64_t step = spread.height();
    std::int64_t sample = inside ? begin + spread.across() : end;
    for (; sample + (F::ahead - 1) * step < end; sample += F::ahead * step)
      add_samples<F::ahead, N>(f, x.count, sample, step, c, sums);
    for (; sample < end; sample += step) add_samples<1, N>(f, x.count, sample, step, c, sums);
    constexpr int at_once = N < 4 ? N : 4;  // 16 KiB of shared memory
#pragma unroll
    for (int first = 0; first < N; first += at_once) {
      ChannelSums of_block[at_once];
#pragma unroll
      for (int j = 0; j < at_once; ++j) of_block[j] = sums[first + j].sums();
      sum_across(of_block, spread);
      if (inside && spread.across() == 0)
#pragma unroll
        for (int j = 0; j < at_once; ++j)
          partials[(c + first + j) * spread.parts + part] = of_block[j];
    }
  } else {
    const std::int64_t c = blockIdx.x;
    typename F::Part sums = f.part(c);
    const std::int64_t first = spread.across() < spread.height() ? begin + spread.across() : end;
    for (std::int64_t sample = first; sample < end; sample += spread.height())
      for (std::int64_t i = spread.along() * N; i < x.inner; i += spread.width * N) {
        const std::int64_t e = (sample * x.count + c) * x.inner + i;
        auto loaded = f.template load<N>(e, sample);
#pragma unroll
        for (int j = 0; j < N; ++j) sums.add(loaded, j);
        f.store(e, loaded);
      }
    const ChannelSums sum = sum_of_block(sums.sums());
    if (threadIdx.x == 0) partials[c * spread.parts + part] = sum;
  }
}

/// The second level: a block adds up the parts of a channel and gives them to `f.finish(c, sums)`.
template <class F>
__global__ void finish_channels_kernel(F f, std::int64_t count, std::int64_t parts,
                                       const ChannelSums* partials) {
  for (std::int64_t c = blockIdx.x; c < count; c += gridDim.x) {
    ChannelSums sums{};
    for (std::int64_t part = threadIdx.x; part < parts; part += blockDim.x)
      sums += partials[c * parts + part];
    sums = sum_of_block(sums);
    if (threadIdx.x == 0) f.finish(c, sums);
  }
}

/// So many parts that all channels together keep a large device busy, of at least `each` packs a
/// thread.
inline std::int64_t parts_for(std::int64_t blocks, std::int64_t samples, std::int64_t packs,
                              std::int64_t each) {
  const std::int64_t wanted = (1024 + blocks - 1) / blocks;
  const std::int64_t most = std::min(samples, packs / (each * block_threads));
  return std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(most, 1));
}

/// The sums of `f` over each channel, in an order that depends on shape, layout, type and
/// alignment, given to `finish`, which is called for every channel, also of no elements.
template <class S, class F, class Finish, class... Pointers>
void sum_channels(const Stream& stream, const Channels& x, const F& f, const Finish& finish,
                  const Pointers*... pointers) {
  if (x.count == 0) return;
  with_form<S>(
      x,
      [&]<bool columns, int N>(std::bool_constant<columns>, std::integral_constant<int, N>) {
        const std::int64_t packs = (columns ? x.count : x.inner) / N;
        Spread spread{.width = width_for(packs)};
        const std::int64_t groups = columns ? (packs + spread.width - 1) / spread.width : x.count;
        // A block's part costs the second level a sum for each of its channels.
        spread.parts = parts_for(groups, x.samples, x.samples * (columns ? spread.width : packs),
                                 columns ? 16 : 4);
        const Tensor space = workspace(
            stream, static_cast<std::size_t>(x.count * spread.parts) * sizeof(ChannelSums));
        auto* partials = reinterpret_cast<ChannelSums*>(space.raw());
        const dim3 blocks(static_cast<unsigned>(groups), static_cast<unsigned>(spread.parts));
        Launch(stream, blocks, block_threads)(sum_channels_kernel<columns, N, F>, f, x, spread,
                                              partials);
        Launch(stream, blocks_for(x.count, 1), block_threads)(
            finish_channels_kernel<Finish>, finish, x.count, spread.parts, partials);
      },
      pointers...);
}

}  // namespace troupe::cuda
