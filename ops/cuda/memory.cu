// One pass over memory: filling, scaling, folding, and the sum of squares.

#include "ops/cuda/kernels.h"
#include "ops/cuda/map.h"
#include "ops/cuda/reduce.h"
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
__global__ void square_sum_kernel(const T* x, std::int64_t count, double* sums) {
  double sum = 0;
#pragma unroll 4
  for (std::int64_t i = first_index(); i < count; i += grid_threads()) {
    const auto value = static_cast<double>(x[i]);
    sum += value * value;
  }
  sum = reduce_block(sum, 0.0, Plus());
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// By one block.
__global__ void total_kernel(const double* sums, std::int64_t count, double* to) {
  double total = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) total += sums[i];
  total = reduce_block(total, 0.0, Plus());
  if (threadIdx.x == 0) *to = total;
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

void square_sum(const Stream& stream, const Tensor& x, Tensor& to) {
  constexpr std::int64_t each = 16, most = 1024;  // terms of a thread, blocks
  const std::int64_t count = x.element_count();
  const std::int64_t wanted = (count + each * block_threads - 1) / (each * block_threads);
  const std::int64_t blocks = std::clamp<std::int64_t>(wanted, 1, most);
  visit_float(x.dtype(), [&]<class T>(T) {
    const Launch launch(stream, dim3(static_cast<unsigned>(blocks)), block_threads);
    if (blocks == 1)
      return launch(square_sum_kernel<T>, input<T>(stream, x), count, output<double>(stream, to));
    const Tensor memory = workspace(stream, static_cast<std::size_t>(blocks) * sizeof(double));
    auto* sums = reinterpret_cast<double*>(memory.raw());
    launch(square_sum_kernel<T>, input<T>(stream, x), count, sums);
    Launch(stream, 1, block_threads)(total_kernel, sums, blocks, output<double>(stream, to));
  });
}

}  // namespace troupe::cuda
