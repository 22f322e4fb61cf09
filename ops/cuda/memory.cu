// One pass over memory: filling, scaling, folding, and the sum of squares.

#include "ops/cuda/kernels.h"
#include "ops/cuda/map.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/segments.h"
#include "ops/cuda/workspace.h"

namespace troupe::cuda {
namespace {

template <class T>
struct Constant {
  T value;
  __device__ T operator()() const { return value; }
};

template <class T>
struct Fold {
  double momentum;
  __device__ T operator()(T observed, T running) const {
    return static_cast<T>((1.0 - momentum) * static_cast<double>(running) +
                          momentum * static_cast<double>(observed));
  }
};

template <class From, class To>
__global__ void scale_kernel(const From* from, double factor, To* to, std::int64_t count) {
  for (std::int64_t i = first_index(); i < count; i += grid_threads())
    to[i] =
        converted<To>(static_cast<Computed<To>>(static_cast<double>(computed(from[i])) * factor));
}

/// One sum for each block.
template <class T>
__global__ void square_sums_kernel(const __grid_constant__ Segments<const T*> arrays,
                                   double* sums) {
  const unsigned a = arrays.of_block(blockIdx.x);
  const T* x = arrays.at[a].item;
  const std::int64_t count = arrays.at[a].count, first = arrays.begin(a);
  const std::int64_t threads = (arrays.at[a].end - first) * blockDim.x;
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = (blockIdx.x - first) * blockDim.x + threadIdx.x; i < count; i += threads) {
    const auto value = static_cast<double>(x[i]);
    sum += value * value;
  }
  sum = reduce_block(sum, 0.0, Plus());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// By a block for each array.
template <class T>
__global__ void totals_kernel(const __grid_constant__ Segments<const T*> arrays, const double* sums,
                              double* totals) {
  const std::int64_t end = arrays.at[blockIdx.x].end;
  double total = 0;
  for (std::int64_t i = arrays.begin(blockIdx.x) + threadIdx.x; i < end; i += blockDim.x)
    total += sums[i];
  total = reduce_block(total, 0.0, Plus());
  if (threadIdx.x == 0) totals[blockIdx.x] = total;
}

}  // namespace

void fill(const Stream& stream, double value, Tensor& to) {
  visit_stored(to.dtype(), [&]<class S, class T>(S, T) {
    map(stream, Constant<T>{static_cast<T>(value)}, to.element_count(), output<S>(stream, to));
  });
}

void scale(const Stream& stream, const Tensor& from, double factor, Tensor& to) {
  if (from.shape() != to.shape() || from.layout() != to.layout())
    check_alike("scale", from, to);  // throws
  const std::int64_t count = to.element_count();
  if (count == 0) return;
  visit_stored(from.dtype(), [&]<class From>(From, auto) {
    visit_stored(to.dtype(), [&]<class To>(To, auto) {
      Launch(stream, blocks_for(count), block_threads)(
          scale_kernel<From, To>, input<From>(stream, from), factor, output<To>(stream, to), count);
    });
  });
}

void fold(const Stream& stream, const Tensor& observed, double momentum, Tensor& running) {
  check_alike("fold", observed, running);
  visit_float(running.dtype(), [&]<class T>(T) {
    map(stream, Fold<T>{momentum}, running.element_count(), output<T>(stream, running),
        input<T>(stream, observed), input<T>(stream, running));
  });
}

void square_sums(const Stream& stream, const std::vector<Tensor>& xs, Tensor& to) {
  constexpr std::int64_t each = 16, most_of_one = 1024;  // terms of a thread, blocks of an array
  if (xs.empty()) return;
  visit_float(xs.front().dtype(), [&]<class T>(T) {
    using Arrays = Segments<const T*>;
    for (std::size_t begin = 0; begin < xs.size(); begin += Arrays::most) {
      Arrays arrays{};
      const std::size_t size = std::min(Arrays::most, xs.size() - begin);
      std::int64_t blocks = 0;
      for (std::size_t a = 0; a < size; ++a) {
        const Tensor& x = xs[begin + a];
        const std::int64_t count = x.element_count();
        const std::int64_t wanted = (count + each * block_threads - 1) / (each * block_threads);
        blocks += std::clamp<std::int64_t>(wanted, 1, most_of_one);
        arrays.at[a] = {input<T>(stream, x), count, blocks};
      }
      const Tensor memory = workspace(stream, static_cast<std::size_t>(blocks) * sizeof(double));
      auto* sums = reinterpret_cast<double*>(memory.raw());
      Launch(stream, dim3(static_cast<unsigned>(blocks)), block_threads)(square_sums_kernel<T>,
                                                                         arrays, sums);
      Launch(stream, dim3(static_cast<unsigned>(size)), block_threads)(
          totals_kernel<T>, arrays, sums, output<double>(stream, to) + begin);
    }
  });
}

}  // namespace troupe::cuda
