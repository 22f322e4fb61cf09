#pragma once
// Sums and maxima over the threads of a warp and of a block, in an order that depends on the number
// of threads only.

#include "ops/cuda/launch.h"

namespace troupe::cuda {

struct Plus {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Larger {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a > b || a != a ? a : b;  // NaN stays
  }
};

/// Of all 32 lanes, which all call it; each gets the result.
template <class T, class Op>
__device__ T reduce_warp(T value, Op op) {
#pragma unroll
  for (int distance = warp_size / 2; distance > 0; distance /= 2)
    value = op(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
}

/// Of all threads of a one-dimensional block, which all call it; each gets the result. `neutral`
/// does not change what `op` combines it with.
template <class T, class Op>
__device__ T reduce_block(T value, T neutral, Op op) {
  __shared__ T of_warp[warp_size];
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  value = reduce_warp(value, op);
  __syncthreads();  // the previous reduction has been read
  if (lane == 0) of_warp[warp] = value;
  __syncthreads();
  return reduce_warp(lane < warps ? of_warp[lane] : neutral, op);
}

}  // namespace troupe::cuda
