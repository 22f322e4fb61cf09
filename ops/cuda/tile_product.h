#pragma once
// Products of many small or middling matrices of any strides, by tiles in shared memory.

#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/numbers.h"

namespace troupe::cuda {

/// Matrices in memory: element (i, j) of one is number i * row + j * column, and the next matrix
/// begins `matrix` elements later.
template <class T>
struct Matrices {
  T* data;
  std::int64_t row, column, matrix;

  __host__ __device__ Matrices transposed() const { return {data, column, row, matrix}; }
};

/// Which parts of a product a causal attention leaves out. Rows of `result` and of `rows_end` are
/// tokens, from number `first` on; token i sees the keys 0 to i.
enum class Unseen : std::uint8_t {
  none,
  result,    ///< [tokens, keys]: tiles that are not seen are not written
  rows_end,  ///< [tokens, keys] times [keys, n]: the sum ends with the last key seen
  begin,     ///< [keys, tokens] times [tokens, n]: the sum begins with the first token that sees
};

/// c = alpha * a b plus a bias [n] (null: none), or that added to c, for `count` matrices [m, k]
/// and [k, n]. F: the type of the factors, which are multiplied and summed in T. Y: that of c and
/// of the bias.
template <class T, class F = T, class Y = T>
struct TileProduct {
  static constexpr int tile = 64, depth = 16, of_thread = 4;
  static constexpr int side = tile / of_thread;  ///< threads along each axis of a tile
  static_assert(side * side == block_threads);

  Matrices<const F> a, b;
  Matrices<Y> c;
  std::int64_t count, m, n, k;
  T alpha = 1;
  bool add = false;
  const Y* bias = nullptr;
  Unseen unseen = Unseen::none;
  std::int64_t first = 0;

  /// A tile of columns for each of the `depth` terms of sums.
  using Rows = T[depth][tile + of_thread];

  /// Elements (r, i) of a matrix whose rows `from` begins with, zero beyond `rows` and `end`.
  __device__ static void load(const Matrices<const F>& of, const F* from, std::int64_t rows,
                              std::int64_t begin, std::int64_t end, Rows& to) {
    const bool along_sum = of.column == 1;  // neighbours in memory are read by neighbours
#pragma unroll
    for (int step = 0; step < tile * depth; step += block_threads) {
      const int index = step + static_cast<int>(threadIdx.x);
      const int r = along_sum ? index / depth : index % tile;
      const int i = along_sum ? index % depth : index / tile;
      const bool inside = r < rows && begin + i < end;
      to[i][r] = inside ? converted<T>(from[r * of.row + (begin + i) * of.column]) : T(0);
    }
  }

  /// What a thread computes: `of_thread` squared elements of a tile.
  using Sums = T[of_thread][of_thread];
  using Four = Pack<T, of_thread>;

  __device__ static void add_products(const Rows& a, const Rows& b, int row, int column,
                                      Sums& sums) {
#pragma unroll 4  // all would need more registers than there are
    for (int d = 0; d < depth; ++d) {
      const Four x = *reinterpret_cast<const Four*>(&a[d][row]);
      const Four y = *reinterpret_cast<const Four*>(&b[d][column]);
#pragma unroll
      for (int r = 0; r < of_thread; ++r)
#pragma unroll
        for (int s = 0; s < of_thread; ++s) sums[r][s] = std::fma(x.at[r], y.at[s], sums[r][s]);
    }
  }

  /// Of matrix number `one`, from element (i, j) on.
  __device__ void store(const Sums& sums, std::int64_t one, std::int64_t i, std::int64_t j) const {
    Y* to = c.data + one * c.matrix + i * c.row + j * c.column;
#pragma unroll
    for (int r = 0; r < of_thread; ++r)
#pragma unroll
      for (int s = 0; s < of_thread; ++s) {
        if (i + r >= m || j + s >= n) continue;
        Y& element = to[r * c.row + s * c.column];
        T sum = add ? std::fma(alpha, sums[r][s], converted<T>(element)) : alpha * sums[r][s];
        if (bias) sum += converted<T>(bias[j + s]);
        element = converted<Y>(sum);
      }
  }
};

template <class T, class F, class Y>
__global__ void __launch_bounds__(block_threads, sizeof(T) == 8 ? 1 : 2)
    tile_product_kernel(TileProduct<T, F, Y> p) {
  using P = TileProduct<T, F, Y>;
  alignas(sizeof(typename P::Four)) __shared__ typename P::Rows a_rows;
  alignas(sizeof(typename P::Four)) __shared__ typename P::Rows b_rows;
  const std::int64_t across = (p.n + P::tile - 1) / P::tile;
  const std::int64_t m0 = blockIdx.x / across * P::tile, n0 = blockIdx.x % across * P::tile;
  if (p.unseen == Unseen::result && n0 > p.first + m0 + P::tile - 1) return;
  std::int64_t begin = 0, end = p.k;
  if (p.unseen == Unseen::rows_end && p.first + m0 + P::tile < end) end = p.first + m0 + P::tile;
  if (p.unseen == Unseen::begin && m0 > p.first) begin = m0 - p.first;
  const int row = static_cast<int>(threadIdx.x) / P::side * P::of_thread;
  const int column = static_cast<int>(threadIdx.x) % P::side * P::of_thread;
  const bool computes = m0 + row < p.m && n0 + column < p.n;
  const Matrices<const F> b = p.b.transposed();
  for (std::int64_t one = blockIdx.y; one < p.count; one += gridDim.y) {
    typename P::Sums sums = {};
    for (std::int64_t i = begin; i < end; i += P::depth) {
      __syncthreads();  // the previous rows have been read
      P::load(p.a, p.a.data + one * p.a.matrix + m0 * p.a.row, p.m - m0, i, end, a_rows);
      P::load(b, b.data + one * b.matrix + n0 * b.row, p.n - n0, i, end, b_rows);
      __syncthreads();
      if (computes) P::add_products(a_rows, b_rows, row, column, sums);
    }
    if (computes) p.store(sums, one, m0 + row, n0 + column);
  }
}

template <class T, class F, class Y>
void multiply(const Stream& stream, const TileProduct<T, F, Y>& p) {
  if (p.count == 0 || p.m == 0 || p.n == 0) return;
  constexpr int tile = TileProduct<T, F, Y>::tile;
  const std::int64_t tiles = (p.m + tile - 1) / tile * ((p.n + tile - 1) / tile);
  const dim3 blocks(static_cast<unsigned>(tiles),
                    static_cast<unsigned>(std::min<std::int64_t>(p.count, 65'535)));
  Launch(stream, blocks, block_threads)(tile_product_kernel<T, F, Y>, p);
}

}  // namespace troupe::cuda
