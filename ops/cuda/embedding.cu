// Rows of a weight by their indices, which the host cannot read. An index that is not whole, or not
// the number of a row, gives a row of NaN and adds no gradient. So the loss is NaN, and the
// run ends there.

#include <cmath>
#include <vector>

#include "ops/cuda/elements.h"
#include "ops/cuda/index_space.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/workspace.h"

namespace troupe::cuda {
namespace {

constexpr std::int64_t no_row = -1;

/// The row that an index names, or no_row.
template <class Index>
__device__ std::int64_t row_of(Index index, std::int64_t rows) {
  if (!(index >= 0 && index < static_cast<Index>(rows))) return no_row;  // NaN too
  const auto row = static_cast<std::int64_t>(index);
  return static_cast<Index>(row) == index ? row : no_row;
}

/// Calls `f` with an index of the type of `indices`.
template <class F>
void visit_index(const Tensor& indices, const F& f) {
  if (indices.dtype() == DType::i64) return f(std::int64_t());
  visit_float(indices.dtype(), f);
}

template <int N, class T, class Index>
__global__ void embedding_kernel(IndexSpace<2> space, const T* weight, const Index* indices,
                                 std::int64_t rows, std::int64_t features, T* y) {
  Pack<T, N> nothing;
#pragma unroll
  for (int j = 0; j < N; ++j) nothing.at[j] = static_cast<T>(NAN);
  for (std::int64_t i = first_index(); i < space.count(); i += grid_threads()) {
    const auto places = space.places(i);
    const std::int64_t row = row_of(indices[places.of[0]], rows);
    reinterpret_cast<Pack<T, N>*>(y)[i] =
        row == no_row
            ? nothing
            : *reinterpret_cast<const Pack<T, N>*>(weight + row * features + places.of[1]);
  }
}

template <int N, class T, class Index>
void gather(const Stream& stream, const T* weight, const Index* indices, std::int64_t count,
            std::int64_t rows, std::int64_t features, T* y) {
  IndexSpace<2> space;  // places: of the index, and in its row
  space.add(count, {{1, 0}});
  space.add(features / N, {{0, N}});
  Launch(stream, blocks_for(space.count()), block_threads)(embedding_kernel<N, T, Index>, space,
                                                           weight, indices, rows, features, y);
}

/// How the sums of the gradient are divided. A block adds up some rows of the weight, of which each
/// thread has one feature at a time, over a part of the indices.
struct Division {
  std::int64_t rows, features, indices;
  std::int64_t block_rows, row_blocks;  ///< rows of a block, and blocks for all of them
  std::int64_t feature_blocks;
  std::int64_t part_indices, parts;
};

std::int64_t divided(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

/// By the sizes alone. The indices are divided where the rows are too few to keep a GPU busy, and
/// into so few parts that these take less memory than the gradient.
Division division_of(std::int64_t rows, std::int64_t features, std::int64_t indices) {
  constexpr std::int64_t blocks = std::min<std::int64_t>(1024, most_blocks), least_indices = 64;
  Division d{.rows = rows, .features = features, .indices = indices};
  d.feature_blocks = divided(features, block_threads);
  d.block_rows = divided(rows, std::max<std::int64_t>(1, blocks / d.feature_blocks));
  d.row_blocks = divided(rows, d.block_rows);
  const std::int64_t most = std::min(
      {blocks / (d.row_blocks * d.feature_blocks), indices / rows, indices / least_indices});
  d.part_indices = std::max<std::int64_t>(1, divided(indices, std::max<std::int64_t>(1, most)));
  d.parts = std::max<std::int64_t>(1, divided(indices, d.part_indices));
  return d;
}

/// The indices of a block's rows among as many as it has threads, in their order.
struct Found {
  int count;
  int place[block_threads];  ///< after the first of these indices
  int row[block_threads];    ///< after the block's first row
  int of_warp[block_threads / warp_size];
};

/// Called by all threads of a block, each with the row of its index, counted from the block's
/// first; negative: of another block. Ends with the threads together.
__device__ void find(Found& found, int row) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % warp_size;
  const int warp = thread / warp_size;
  const unsigned with = __ballot_sync(0xffffffffu, row >= 0);
  if (lane == 0) found.of_warp[warp] = __popc(with);
  __syncthreads();
  int at = 0, all = 0;
  for (int w = 0; w < block_threads / warp_size; ++w) {
    if (w == warp) at = all;
    all += found.of_warp[w];
  }
  at += __popc(with & ((1u << lane) - 1));
  if (row >= 0) {
    found.place[at] = thread;
    found.row[at] = row;
  }
  if (thread == 0) found.count = all;
  __syncthreads();
}

/// Adds a feature of the rows of grad that were found to those of the weight, `sums`. While a row
/// repeats, its sum stays in a register.
template <class T>
__device__ void add_found(const Found& found, const T* grad, std::int64_t features, T* sums) {
  constexpr int ahead = 8;  // loads that do not wait for each other
  int row = -1;
  T sum = 0;
  for (int first = 0; first < found.count; first += ahead) {
    T slopes[ahead];
#pragma unroll
    for (int j = 0; j < ahead; ++j)
      slopes[j] = first + j < found.count ? grad[found.place[first + j] * features] : T(0);
#pragma unroll
    for (int j = 0; j < ahead; ++j) {
      if (first + j >= found.count) break;
      if (found.row[first + j] != row) {
        if (row >= 0) sums[row * features] = sum;
        row = found.row[first + j];
        sum = sums[row * features];
      }
      sum += slopes[j];
    }
  }
  if (row >= 0) sums[row * features] = sum;
}

/// sums[part][row][feature] = the sum of the part's rows of grad that have this index.
template <class T, class Index>
__global__ void scatter_kernel(Division d, const T* grad, const Index* indices, T* sums) {
  __shared__ Found found;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t blocks = d.row_blocks * d.feature_blocks * d.parts;
  for (std::int64_t number = blockIdx.x; number < blocks; number += gridDim.x) {
    const std::int64_t part = number / d.feature_blocks / d.row_blocks;
    const std::int64_t first_row = number / d.feature_blocks % d.row_blocks * d.block_rows;
    const std::int64_t rows = smaller(d.block_rows, d.rows - first_row);
    const std::int64_t feature = number % d.feature_blocks * block_threads + thread;
    const bool adds = feature < d.features;
    T* mine = sums + (part * d.rows + first_row) * d.features + feature;
    if (adds)
      for (std::int64_t row = 0; row < rows; ++row) mine[row * d.features] = 0;
    const std::int64_t end = smaller(d.indices, (part + 1) * d.part_indices);
    for (std::int64_t first = part * d.part_indices; first < end; first += block_threads) {
      const std::int64_t own = first + thread;
      const std::int64_t row = own < end ? row_of(indices[own], d.rows) : no_row;
      const bool inside = row >= first_row && row < first_row + rows;
      find(found, inside ? static_cast<int>(row - first_row) : -1);
      if (adds) add_found(found, grad + first * d.features + feature, d.features, mine);
    }
  }
}

template <class T>
__global__ void add_parts_kernel(const T* sums, std::int64_t parts, std::int64_t count, T* to) {
  for (std::int64_t i = first_index(); i < count; i += grid_threads()) {
    double sum = 0;
#pragma unroll 4
    for (std::int64_t part = 0; part < parts; ++part)
      sum += static_cast<double>(sums[part * count + i]);
    to[i] = static_cast<T>(sum);
  }
}

template <class T, class Index>
void scatter(const Stream& stream, const Division& d, const T* grad, const Index* indices,
             T* weight_grad) {
  const dim3 blocks = blocks_for(d.row_blocks * d.feature_blocks * d.parts, 1);
  const auto kernel = scatter_kernel<T, Index>;
  if (d.parts == 1)
    return Launch(stream, blocks, block_threads)(kernel, d, grad, indices, weight_grad);
  const std::int64_t count = d.rows * d.features;
  const Tensor memory = workspace(stream, static_cast<std::size_t>(d.parts * count) * sizeof(T));
  auto* sums = reinterpret_cast<T*>(memory.raw());
  Launch(stream, blocks, block_threads)(kernel, d, grad, indices, sums);
  Launch(stream, blocks_for(count), block_threads)(add_parts_kernel<T>, sums, d.parts, count,
                                                   weight_grad);
}

}  // namespace

Tensor embedding(const Stream& stream, const Tensor& weight, const Tensor& indices) {
  const std::int64_t rows = weight.dim(0), features = weight.dim(1);
  std::vector<std::int64_t> sizes(indices.shape().dims().begin(), indices.shape().dims().end());
  sizes.push_back(features);
  Tensor y = result(stream, Shape(std::span<const std::int64_t>(sizes)), weight.dtype());
  const std::int64_t count = indices.element_count();
  if (y.element_count() == 0) return y;
  visit_float(weight.dtype(), [&]<class T>(T) {
    const T* from = input<T>(stream, weight);
    T* to = output<T>(stream, y);
    visit_index(indices, [&]<class Index>(Index) {
      constexpr int width = pack_width<T>;
      const bool packs =
          features % width == 0 && aligned_for_packs(from, static_cast<const T*>(to));
      const auto run = packs ? gather<width, T, Index> : gather<1, T, Index>;
      run(stream, from, input<Index>(stream, indices), count, rows, features, to);
    });
  });
  return y;
}

void embedding_backward(const Stream& stream, const Tensor& grad, const Tensor& indices,
                        Tensor& weight_grad) {
  if (weight_grad.element_count() == 0) return;
  const std::int64_t features = weight_grad.dim(1);
  const Division d = division_of(weight_grad.dim(0), features, indices.element_count());
  visit_float(weight_grad.dtype(), [&]<class T>(T) {
    visit_index(indices, [&]<class Index>(Index) {
      scatter<T, Index>(stream, d, input<T>(stream, grad), input<Index>(stream, indices),
                        output<T>(stream, weight_grad));
    });
  });
}

}  // namespace troupe::cuda
