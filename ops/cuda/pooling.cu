// Poolings. A thread computes one element of a result, or of images with innermost channels a pack
// of them; backward, an element of x collects what comes from the windows that it is in, after
// another kernel has found once more which elements are the largest, so that forward need not keep
// it. Where windows tile the images, one kernel does both.

#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/numbers.h"
#include "ops/cuda/pool_windows.h"
#include "ops/cuda/workspace.h"

namespace troupe::cuda {
namespace {

struct Range {
  std::int64_t begin, end;
};
__device__ Range clipped(std::int64_t begin, std::int64_t end, std::int64_t size) {
  return {begin < 0 ? 0 : begin, end > size ? size : end};
}
__device__ std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The places of x that window o sees.
__device__ Range window_of(const PoolAxis& axis, std::int64_t o) {
  if (axis.adaptive)
    return {o * axis.input / axis.output, quotient_up((o + 1) * axis.input, axis.output)};
  const std::int64_t begin = o * axis.stride - axis.padding;
  return clipped(begin, begin + axis.kernel, axis.input);
}
/// The windows that see place i.
__device__ Range windows_with(const PoolAxis& axis, std::int64_t i) {
  if (axis.adaptive)
    return {i * axis.output / axis.input, quotient_up((i + 1) * axis.output, axis.input)};
  // Divisions of 32 bits take a fraction of the time.
  const auto stride = static_cast<std::uint32_t>(axis.stride);
  const auto place = static_cast<std::uint32_t>(i + axis.padding);
  const auto after = static_cast<std::uint32_t>(axis.kernel - 1);  // where the first one may begin
  const std::uint32_t first = place <= after ? 0 : (place - after - 1) / stride + 1;
  return clipped(first, std::int64_t{place / stride} + 1, axis.output);
}
/// The elements by which an average is divided: padding counts.
__device__ std::int64_t divisor_of(const PoolAxis& axis, const Range& window) {
  return axis.adaptive ? window.end - window.begin : axis.kernel;
}

/// Element number e of [images, rows, columns, width], of packs.
struct Place {
  std::int64_t image, row, column, channel;

  __device__ Place(std::int64_t e, std::int64_t rows, std::int64_t columns, std::int64_t width) {
    if (e <= UINT32_MAX)  // divisions of 32 bits take a fraction of the time
      divide(static_cast<std::uint32_t>(e), static_cast<std::uint32_t>(rows),
             static_cast<std::uint32_t>(columns), static_cast<std::uint32_t>(width));
    else
      divide(e, rows, columns, width);
  }

 private:
  template <class T>
  __device__ void divide(T e, T rows, T columns, T width) {
    const T pixel = e / width, line = pixel / columns;
    channel = e - pixel * width;
    column = pixel - line * columns;
    image = line / rows;
    row = line % rows;
  }
};

/// The memory of x or of a result: packs of N channels, by their places.
template <class S, int N>
struct Images {
  S* data;
  std::int64_t rows, columns, width;  ///< width: in packs

  __device__ std::int64_t place(std::int64_t image, std::int64_t row, std::int64_t column,
                                std::int64_t channel) const {
    return ((image * rows + row) * columns + column) * width + channel;
  }
  __device__ auto at(std::int64_t image, std::int64_t row, std::int64_t column,
                     std::int64_t channel) const {
    return load_pack<std::remove_const_t<S>, N>(data, place(image, row, column, channel) * N);
  }
};

template <class T>
__device__ bool is_nan(T x) {
  return x != x;
}
/// Whether a value that comes later takes the place of the largest so far.
template <class T>
__device__ bool replaces(T value, T largest) {
  return value > largest || (is_nan(value) && !is_nan(largest));
}

/// The largest elements of a window.
template <class S, int N>
struct Largest {
  using P = Pack<Computed<S>, N>;

  __device__ static P of_window(const PoolWindows& pool, const Images<const S, N>& x,
                                const Place& at) {
    return visit(pool, x, at, [](int, std::int64_t, std::int64_t) {});
  }

  /// Calls `f(j, h, w)` wherever a larger element than all before is found.
  template <class F>
  __device__ static P visit(const PoolWindows& pool, const Images<const S, N>& x, const Place& at,
                            F f) {
    const Range rows = window_of(pool.h, at.row), columns = window_of(pool.w, at.column);
    P best = x.at(at.image, rows.begin, columns.begin, at.channel);
    for (std::int64_t h = rows.begin; h < rows.end; ++h)
      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
        const P value = x.at(at.image, h, w, at.channel);
#pragma unroll
        for (int j = 0; j < N; ++j)
          if (replaces(value.at[j], best.at[j])) {
            best.at[j] = value.at[j];
            f(j, h, w);
          }
      }
    return best;
  }
};

/// The number of a place in a window, which may begin in the padding.
__device__ std::int64_t number_in_window(const PoolWindows& pool, std::int64_t oh, std::int64_t ow,
                                         std::int64_t h, std::int64_t w) {
  return (h - (oh * pool.h.stride - pool.h.padding)) * pool.w.kernel +
         (w - (ow * pool.w.stride - pool.w.padding));
}

/// The place of the first largest element of each window. Number is large enough for a window.
template <class S, int N, class Number>
__global__ void winners_kernel(PoolWindows pool, Images<const S, N> x,
                               Images<Pack<Number, N>, 1> winners) {
  const std::int64_t count = pool.images * winners.rows * winners.columns * winners.width;
  for (std::int64_t e = first_index(); e < count; e += grid_threads()) {
    const Place at(e, winners.rows, winners.columns, winners.width);
    Pack<Number, N> found;
    const auto first = static_cast<Number>(number_in_window(pool, at.row, at.column,
                                                            window_of(pool.h, at.row).begin,
                                                            window_of(pool.w, at.column).begin));
#pragma unroll
    for (int j = 0; j < N; ++j) found.at[j] = first;
    Largest<S, N>::visit(pool, x, at, [&](int j, std::int64_t h, std::int64_t w) {
      found.at[j] = static_cast<Number>(number_in_window(pool, at.row, at.column, h, w));
    });
    winners.data[e] = found;
  }
}

/// Gives the gradient of a window to its first largest element.
template <class S, int N, class Number>
struct ToWinner {
  Images<Pack<Number, N>, 1> winners;

  template <class P>
  __device__ void add_gradient(const PoolWindows& pool, const Place& at, std::int64_t oh,
                               std::int64_t ow, const P& grad, P& sum) const {
    const auto mine = static_cast<Number>(number_in_window(pool, oh, ow, at.row, at.column));
    const Pack<Number, N> winner = winners.data[winners.place(at.image, oh, ow, at.channel)];
#pragma unroll
    for (int j = 0; j < N; ++j)
      if (winner.at[j] == mine) sum.at[j] += grad.at[j];
  }
};

template <class S, int N>
struct Average {
  using T = Computed<S>;
  using P = Pack<T, N>;

  __device__ static T share(const PoolWindows& pool, const Range& rows, const Range& columns) {
    return T(1) / static_cast<T>(divisor_of(pool.h, rows) * divisor_of(pool.w, columns));
  }

  __device__ static P of_window(const PoolWindows& pool, const Images<const S, N>& x,
                                const Place& at) {
    const Range rows = window_of(pool.h, at.row), columns = window_of(pool.w, at.column);
    P sum{};
    for (std::int64_t h = rows.begin; h < rows.end; ++h) {
      P row{};  // row by row, so that the error grows with the height plus the width only
      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
        const P value = x.at(at.image, h, w, at.channel);
#pragma unroll
        for (int j = 0; j < N; ++j) row.at[j] += value.at[j];
      }
#pragma unroll
      for (int j = 0; j < N; ++j) sum.at[j] += row.at[j];
    }
    const T factor = share(pool, rows, columns);
#pragma unroll
    for (int j = 0; j < N; ++j) sum.at[j] *= factor;
    return sum;
  }

  __device__ static void add_gradient(const PoolWindows& pool, const Place&, std::int64_t oh,
                                      std::int64_t ow, const P& grad, P& sum) {
    const T factor = share(pool, window_of(pool.h, oh), window_of(pool.w, ow));
#pragma unroll
    for (int j = 0; j < N; ++j) sum.at[j] += grad.at[j] * factor;
  }
};

template <class F, class S, int N>
__global__ void pool_kernel(PoolWindows pool, Images<const S, N> x, Images<S, N> y) {
  const std::int64_t count = pool.images * y.rows * y.columns * y.width;
  for (std::int64_t e = first_index(); e < count; e += grid_threads())
    store_pack<S, N>(y.data, e * N, F::of_window(pool, x, Place(e, y.rows, y.columns, y.width)));
}

/// An element of dx collects what `f` adds for each window that it is in.
template <class F, class S, int N>
__global__ void pool_backward_kernel(PoolWindows pool, F f, Images<const S, N> grad,
                                     Images<S, N> dx) {
  const std::int64_t count = pool.images * dx.rows * dx.columns * dx.width;
  for (std::int64_t e = first_index(); e < count; e += grid_threads()) {
    const Place at(e, dx.rows, dx.columns, dx.width);
    const Range rows = windows_with(pool.h, at.row), columns = windows_with(pool.w, at.column);
    Pack<Computed<S>, N> sum{};
    for (std::int64_t oh = rows.begin; oh < rows.end; ++oh)
      for (std::int64_t ow = columns.begin; ow < columns.end; ++ow)
        f.add_gradient(pool, at, oh, ow, grad.at(at.image, oh, ow, at.channel), sum);
    store_pack<S, N>(dx.data, e * N, sum);
  }
}

/// Whether each element is in exactly one window.
bool tiles(const PoolAxis& axis) {
  return axis.stride == axis.kernel && axis.padding == 0 && axis.output * axis.kernel == axis.input;
}

/// The gradient of a max pooling whose windows tile the images. A thread computes a whole window.
template <class S, int N>
__global__ void tiled_backward_kernel(PoolWindows pool, Images<const S, N> x,
                                      Images<const S, N> grad, Images<S, N> dx) {
  const std::int64_t count = pool.images * grad.rows * grad.columns * grad.width;
  for (std::int64_t e = first_index(); e < count; e += grid_threads()) {
    const Place at(e, grad.rows, grad.columns, grad.width);
    const Range rows = window_of(pool.h, at.row), columns = window_of(pool.w, at.column);
    const Pack<Computed<S>, N> slope = load_pack<S, N>(grad.data, e * N);
    const auto number = [&](std::int64_t h, std::int64_t w) {
      return static_cast<int>((h - rows.begin) * pool.w.kernel + (w - columns.begin));
    };
    int winner[N] = {};
    Largest<S, N>::visit(pool, x, at,
                         [&](int j, std::int64_t h, std::int64_t w) { winner[j] = number(h, w); });
    for (std::int64_t h = rows.begin; h < rows.end; ++h)
      for (std::int64_t w = columns.begin; w < columns.end; ++w) {
        const int mine = number(h, w);
        Pack<Computed<S>, N> to;
#pragma unroll
        for (int j = 0; j < N; ++j) to.at[j] = winner[j] == mine ? slope.at[j] : Computed<S>(0);
        store_pack<S, N>(dx.data, dx.place(at.image, h, w, at.channel) * N, to);
      }
  }
}

/// Calls `f(constant<N>)` with the width of packs.
template <class S, class F, class... Pointers>
void with_packs(const PoolWindows& pool, F&& f, const Pointers*... pointers) {
  constexpr int wide = pack_width<S>;
  if (pool.width % wide == 0 && aligned_for_packs<Pointers...>(pointers...))
    f(std::integral_constant<int, wide>{});
  else
    f(std::integral_constant<int, 1>{});
}

template <int N, class S>
Images<S, N> images_of(const PoolWindows& pool, bool input, S* data) {
  const PoolAxis &h = pool.h, &w = pool.w;
  return {data, input ? h.input : h.output, input ? w.input : w.output, pool.width / N};
}

template <template <class, int> class F>
Tensor pool(const Stream& stream, const Tensor& x, const PoolWindows& windows) {
  Tensor y = result(stream, pooled_shape(x.shape(), windows), x.dtype(), x.layout());
  visit_stored(x.dtype(), [&]<class S>(S, auto) {
    const S* from = input<S>(stream, x);
    S* to = output<S>(stream, y);
    with_packs<S>(
        windows,
        [&]<int N>(std::integral_constant<int, N>) {
          Launch(stream, blocks_for(windows.outputs() / N), block_threads)(
              pool_kernel<F<S, N>, S, N>, windows, images_of<N>(windows, true, from),
              images_of<N>(windows, false, to));
        },
        from, to);
  });
  return y;
}

Tensor average_backward(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        const PoolWindows& windows) {
  Tensor dx = result(stream, x_shape, grad.dtype(), grad.layout());
  visit_stored(grad.dtype(), [&]<class S>(S, auto) {
    const S* slopes = input<S>(stream, grad);
    S* to = output<S>(stream, dx);
    with_packs<S>(
        windows,
        [&]<int N>(std::integral_constant<int, N>) {
          Launch(stream, blocks_for(windows.inputs() / N), block_threads)(
              pool_backward_kernel<Average<S, N>, S, N>, windows, Average<S, N>{},
              images_of<N>(windows, false, slopes), images_of<N>(windows, true, to));
        },
        slopes, to);
  });
  return dx;
}

/// The gradient of a max pooling, which `launch(x, grad, dx)` computes.
template <class F>
Tensor max_gradient(const Stream& stream, const Tensor& grad, const Tensor& x,
                    const PoolWindows& windows, F&& launch) {
  Tensor dx = result_like(stream, x);
  visit_stored(x.dtype(), [&]<class S>(S, auto) {
    const S *slopes = input<S>(stream, grad), *from = input<S>(stream, x);
    S* to = output<S>(stream, dx);
    with_packs<S>(
        windows,
        [&]<int N>(std::integral_constant<int, N>) {
          launch(images_of<N>(windows, true, from), images_of<N>(windows, false, slopes),
                 images_of<N>(windows, true, to));
        },
        slopes, from, to);
  });
  return dx;
}

Tensor tiled_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                      const PoolWindows& windows) {
  return max_gradient(
      stream, grad, x, windows,
      [&]<class S, int N>(Images<const S, N> from, Images<const S, N> slopes, Images<S, N> to) {
        Launch(stream, blocks_for(windows.outputs() / N), block_threads)(
            tiled_backward_kernel<S, N>, windows, from, slopes, to);
      });
}

template <class Number>
Tensor largest_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                        const PoolWindows& windows) {
  const Tensor space =
      workspace(stream, static_cast<std::size_t>(windows.outputs()) * sizeof(Number));
  return max_gradient(
      stream, grad, x, windows,
      [&]<class S, int N>(Images<const S, N> from, Images<const S, N> slopes, Images<S, N> to) {
        const Images<Pack<Number, N>, 1> winners{reinterpret_cast<Pack<Number, N>*>(space.raw()),
                                                 slopes.rows, slopes.columns, slopes.width};
        Launch(stream, blocks_for(windows.outputs() / N), block_threads)(
            winners_kernel<S, N, Number>, windows, from, winners);
        Launch(stream, blocks_for(windows.inputs() / N), block_threads)(
            pool_backward_kernel<ToWinner<S, N, Number>, S, N>, windows,
            ToWinner<S, N, Number>{winners}, slopes, to);
      });
}

}  // namespace

Tensor max_pool(const Stream& stream, const Tensor& x, const PoolOptions& options) {
  return pool<Largest>(stream, x, sliding_windows("max_pool", x.shape(), x.layout(), options));
}

Tensor max_pool_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                         const PoolOptions& options) {
  const char* kernel = "max_pool_backward";
  const PoolWindows windows = sliding_windows(kernel, x.shape(), x.layout(), options);
  check_pooled(kernel, grad, x.shape(), windows, x.dtype(), x.layout());
  const bool is_small = options.kernel_h * options.kernel_w <= INT32_MAX;
  if (tiles(windows.h) && tiles(windows.w) && is_small)
    return tiled_backward(stream, grad, x, windows);
  if (options.kernel_h * options.kernel_w <= UINT8_MAX)
    return largest_backward<std::uint8_t>(stream, grad, x, windows);
  return largest_backward<std::uint32_t>(stream, grad, x, windows);
}

Tensor average_pool(const Stream& stream, const Tensor& x, const PoolOptions& options) {
  return pool<Average>(stream, x, sliding_windows("average_pool", x.shape(), x.layout(), options));
}

// The results of both backwards of averages have grad's layout.
Tensor average_pool_backward(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                             const PoolOptions& options) {
  const char* kernel = "average_pool_backward";
  const PoolWindows windows = sliding_windows(kernel, x_shape, grad.layout(), options);
  check_pooled(kernel, grad, x_shape, windows, grad.dtype(), grad.layout());
  return average_backward(stream, grad, x_shape, windows);
}

Tensor adaptive_average_pool(const Stream& stream, const Tensor& x, std::int64_t out_h,
                             std::int64_t out_w) {
  return pool<Average>(
      stream, x, adaptive_windows("adaptive_average_pool", x.shape(), x.layout(), out_h, out_w));
}

Tensor adaptive_average_pool_backward(const Stream& stream, const Tensor& grad,
                                      const Shape& x_shape) {
  const char* kernel = "adaptive_average_pool_backward";
  const PoolWindows windows =
      adaptive_windows(kernel, x_shape, grad.layout(), grad.dim(-2), grad.dim(-1));
  check_pooled(kernel, grad, x_shape, windows, grad.dtype(), grad.layout());
  return average_backward(stream, grad, x_shape, windows);
}

}  // namespace troupe::cuda
