#include "ops/cuda/blas.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/product.h"

namespace troupe::cuda {
namespace {

// A block computes squares of `tile` elements, each thread four of them.
constexpr int tile = 32, depth_step = 16, half = tile / 2;

// Of a row-major factor, as strides.
struct View {
  std::int64_t row = 0, column = 0, step = 0;
};

// Loads [tile, depth_step] elements of a factor with zeroes around it. Neighbouring threads load
// neighbours in memory: `along_depth` says which these are.
template <class T>
__device__ void load(const T* from, std::int64_t lines, std::int64_t depth,
                     std::int64_t line_stride, std::int64_t depth_stride, std::int64_t first_line,
                     std::int64_t first_depth, T (*to)[tile + 1]) {
  const bool along_depth = depth_stride == 1;
  for (int e = static_cast<int>(threadIdx.x); e < tile * depth_step; e += block_threads) {
    const int line = along_depth ? e / depth_step : e % tile;
    const int k = along_depth ? e % depth_step : e / tile;
    const std::int64_t l = first_line + line, d = first_depth + k;
    to[k][line] = l < lines && d < depth ? from[l * line_stride + d * depth_stride] : T(0);
  }
}

template <class T>
__global__ void product_kernel(Product p, View va, View vb, const T* a, const T* b, const T* bias,
                               T* y) {
  __shared__ T left[depth_step][tile + 1], right[depth_step][tile + 1];
  const std::int64_t across = (p.columns + tile - 1) / tile;
  const std::int64_t tiles = (p.rows + tile - 1) / tile * across;
  const int down = static_cast<int>(threadIdx.x) / half,
            right_of = static_cast<int>(threadIdx.x) % half;
  for (std::int64_t batch = blockIdx.y; batch < p.batches; batch += gridDim.y)
    for (std::int64_t t = blockIdx.x; t < tiles; t += gridDim.x) {
      const std::int64_t row = t / across * tile, column = t % across * tile;
      T sums[2][2] = {};
      for (std::int64_t k = 0; k < p.depth; k += depth_step) {
        __syncthreads();  // the last step's elements have been read
        load(a + batch * va.step, p.rows, p.depth, va.row, va.column, row, k, left);
        load(b + batch * vb.step, p.columns, p.depth, vb.column, vb.row, column, k, right);
        __syncthreads();
#pragma unroll
        for (int d = 0; d < depth_step; ++d)
          for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j)
              sums[i][j] += left[d][down + i * half] * right[d][right_of + j * half];
      }
      for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
          const std::int64_t r = row + down + i * half, c = column + right_of + j * half;
          if (r >= p.rows || c >= p.columns) continue;
          T& to = y[(batch * p.rows + r) * p.columns + c];
          const T sum = bias ? sums[i][j] + bias[c] : sums[i][j];
          to = p.adds ? to + sum : sum;
        }
    }
}

}  // namespace

void multiply(const Stream& stream, const Product& p, const Tensor& a, std::int64_t a_first,
              const Tensor& b, std::int64_t b_first, const Tensor& bias, const Tensor& y,
              std::int64_t y_first) {
  if (p.batches * p.rows * p.columns == 0) return;
  visit_float(y.dtype(), [&]<class T>(T) {
    const T *left = input<T>(stream, a) + a_first, *right = input<T>(stream, b) + b_first;
    const T* added = input<T>(stream, bias);
    T* to = output<T>(stream, y) + y_first;
    if (multiply_by_library(stream, p, y.dtype(), left, right, added, to)) return;
    const View va{p.transposed_a ? 1 : p.depth, p.transposed_a ? p.rows : 1, p.a_step};
    const View vb{p.transposed_b ? 1 : p.columns, p.transposed_b ? p.depth : 1, p.b_step};
    const std::int64_t tiles = (p.rows + tile - 1) / tile * ((p.columns + tile - 1) / tile);
    const dim3 blocks(static_cast<unsigned>(std::min<std::int64_t>(tiles, 1 << 20)),
                      static_cast<unsigned>(std::min<std::int64_t>(p.batches, 1 << 15)));
    Launch(stream, blocks, block_threads)(product_kernel<T>, p, va, vb, left, right, added, to);
  });
}

}  // namespace troupe::cuda
