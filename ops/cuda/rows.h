#pragma once
// Rows of elements: short ones are taken by a warp each, long ones by a block. A kernel is a
// template of its team (WarpOfRow or BlockOfRow), and its loops are
//   for (row = Team::first_row(); row < rows; row += Team::row_step())
//     for (i = Team::rank(); i < length; i += Team::size) ...
// in which all threads of a team come to the same Team::reduce.

#include <cmath>

#include "ops/cuda/reduce.h"

namespace troupe::cuda {

struct WarpOfRow {
  static constexpr int size = warp_size;
  static constexpr int teams = block_threads / warp_size;  ///< in a block

  __device__ static std::int64_t first_row() {
    return std::int64_t{blockIdx.x} * teams + threadIdx.x / warp_size;
  }
  __device__ static std::int64_t row_step() { return std::int64_t{gridDim.x} * teams; }
  __device__ static int rank() { return static_cast<int>(threadIdx.x) % warp_size; }
  /// Of the threads' values, in an order that depends on `size` only; each thread gets the result.
  template <class T, class Op>
  __device__ static T reduce(T value, T, Op op) {
    return reduce_warp(value, op);
  }
};

struct BlockOfRow {
  static constexpr int size = block_threads;
  static constexpr int teams = 1;

  __device__ static std::int64_t first_row() { return blockIdx.x; }
  __device__ static std::int64_t row_step() { return gridDim.x; }
  __device__ static int rank() { return static_cast<int>(threadIdx.x); }
  template <class T, class Op>
  __device__ static T reduce(T value, T neutral, Op op) {
    return reduce_block(value, neutral, op);
  }
};

/// The sum of a team's values, which are of up to some hundred elements each, in f64.
template <class Team, class T>
__device__ double sum_of_team(T value) {
  return Team::reduce(static_cast<double>(value), 0.0, Plus{});
}
template <class Team, class T>
__device__ T largest_of_team(T value) {
  return Team::reduce(value, static_cast<T>(-INFINITY), Larger{});
}

/// Calls `f(team, launch)` with the team for rows of this length, unless there is no element.
template <class F>
void for_rows(const Stream& stream, std::int64_t rows, std::int64_t length, F&& f) {
  if (rows == 0 || length == 0) return;
  const auto launch = [&](int teams) {
    return Launch(stream, blocks_for(rows, teams), block_threads);
  };
  if (length <= 1024)
    f(WarpOfRow{}, launch(WarpOfRow::teams));
  else
    f(BlockOfRow{}, launch(BlockOfRow::teams));
}

}  // namespace troupe::cuda
