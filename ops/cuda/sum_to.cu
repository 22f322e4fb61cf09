// Sums over some axes of a tensor. A block has 256 threads for a few elements of the result and, of
// each, several terms at once; where few elements have many terms, the terms are divided among
// blocks too, whose sums a second pass adds up. All sums are in f64 and in an order that depends on
// the sizes.

#include <bit>

#include "ops/broadcast_plan.h"
#include "ops/cuda/convert.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/index_space.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/numbers.h"
#include "ops/cuda/workspace.h"

namespace troupe::cuda {
namespace {

/// The axes of x and of its factor, divided into those that the result keeps, whose elements have
/// the result's order, and those that are summed.
struct Sums {
  IndexSpace<2> results, terms;
  bool terms_adjacent = false;  ///< neighbours in memory are terms of one element
};

Sums sums_of(const BroadcastPlan& plan) {
  Sums sums;
  sums.terms_adjacent = plan.inner().steps[2] == 0;
  for (int axis = 0; axis < plan.rank; ++axis) {
    const BroadcastPlan::Axis& a = plan.axes[static_cast<std::size_t>(axis)];
    (a.steps[2] == 0 ? sums.terms : sums.results).add(a.size, {{a.steps[0], a.steps[1]}});
  }
  return sums;
}

/// How threads divide the work. `results` * `terms` is the block's size; all are powers of two.
struct Division {
  int results = 0, terms = 0;              ///< threads of a block along each
  std::int64_t parts = 1, part_terms = 0;  ///< of each result's terms
  IndexSpace<2> pieces;                    ///< a block's at a time: its part; its first result
};

int power_of_two(std::int64_t count, int most) {
  return static_cast<int>(
      std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(count, 1, most))));
}

Division division_of(const Sums& sums, bool may_divide_terms) {
  constexpr std::int64_t terms_each = 16, blocks = 1024;
  const std::int64_t results = sums.results.count(), terms = sums.terms.count();
  Division d;
  if (sums.terms_adjacent) {
    d.terms =
        power_of_two(std::max(std::min<std::int64_t>(terms, warp_size), terms / 8), block_threads);
  } else {
    const int adjacent = power_of_two(results, warp_size);
    d.terms = power_of_two(terms, block_threads / adjacent);
  }
  d.results = block_threads / d.terms;
  const std::int64_t tiles = (results + d.results - 1) / d.results;
  const std::int64_t most_parts = (terms + d.terms * terms_each - 1) / (d.terms * terms_each);
  if (may_divide_terms) d.parts = std::clamp<std::int64_t>(blocks / tiles, 1, most_parts);
  d.part_terms = (terms + d.parts - 1) / d.parts;
  d.parts = (terms + d.part_terms - 1) / d.part_terms;
  d.pieces.add(d.parts, {{1, 0}});
  d.pieces.add(tiles, {{0, d.results}});
  return d;
}

/// y[part][result] = the sum of the part's terms, times `scale`. `factor` may be null.
template <class X, class Y>
__global__ void sum_kernel(Sums sums, Division d, const X* x, const X* factor, double scale, Y* y) {
  __shared__ double partial[block_threads];
  const int thread = static_cast<int>(threadIdx.x);
  const int result_lane = sums.terms_adjacent ? thread / d.terms : thread % d.results;
  const int term_lane = sums.terms_adjacent ? thread % d.terms : thread / d.results;
  const int between_terms = sums.terms_adjacent ? 1 : d.results;
  const std::int64_t results = sums.results.count(), terms = sums.terms.count();
  for (std::int64_t number = blockIdx.x; number < d.pieces.count(); number += gridDim.x) {
    const auto piece = d.pieces.places(number);
    const std::int64_t part = piece.of[0], result = piece.of[1] + result_lane;
    const std::int64_t end = result < results ? smaller(terms, (part + 1) * d.part_terms) : 0;
    const auto first = sums.results.places(result < results ? result : 0);
    double sum = 0;
#pragma unroll 4
    for (std::int64_t term = part * d.part_terms + term_lane; term < end; term += d.terms) {
      const auto places = sums.terms.places(term);
      auto value = static_cast<double>(computed(x[first.of[0] + places.of[0]]));
      if (factor != nullptr)
        value *= static_cast<double>(computed(factor[first.of[1] + places.of[1]]));
      sum += value;
    }
    partial[thread] = sum;
    __syncthreads();
    for (int half = d.terms / 2; half > 0; half /= 2) {
      if (term_lane < half) partial[thread] += partial[thread + half * between_terms];
      __syncthreads();
    }
    if (term_lane == 0 && result < results)
      y[part * results + result] = static_cast<Y>(partial[thread] * scale);
  }
}

template <class X, class Y>
void launch(const Stream& stream, const Sums& sums, const Division& division, const X* x,
            const X* factor, double scale, Y* y) {
  Launch(stream, blocks_for(division.pieces.count(), 1), block_threads)(
      sum_kernel<X, Y>, sums, division, x, factor, scale, y);
}

template <class X, class Y>
void add_up(const Stream& stream, const Sums& sums, const X* x, const X* factor, double scale,
            Y* y) {
  const Division division = division_of(sums, true);
  if (division.parts == 1) return launch(stream, sums, division, x, factor, scale, y);
  const std::int64_t results = sums.results.count();
  const Tensor memory =
      workspace(stream, static_cast<std::size_t>(division.parts * results) * sizeof(double));
  auto* partials = reinterpret_cast<double*>(memory.raw());
  launch(stream, sums, division, x, factor, 1.0, partials);
  Sums parts;
  parts.results.add(results, {{1, 0}});
  parts.terms.add(division.parts, {{results, 0}});
  const double* no_factor = nullptr;
  launch(stream, parts, division_of(parts, false), static_cast<const double*>(partials), no_factor,
         scale, y);
}

}  // namespace

Tensor sum_to(const Stream& stream, const Tensor& x, const Tensor& factor, const Shape& shape,
              double scale) {
  if (factor.defined() && factor.dtype() != x.dtype() &&
      (is_narrow(x.dtype()) || is_narrow(factor.dtype())))
    return sum_to(stream, widened(stream, x), widened(stream, factor), shape, scale);
  const bool one_channel = x.layout() != Layout::row_major && shape.rank() == 4 && shape[1] == 1;
  Tensor y =
      result(stream, shape, computed_type(x.dtype()), one_channel ? Layout::row_major : x.layout());
  const BroadcastPlan plan =
      BroadcastPlan::of("sum_to", x.shape(), x.layout(), {&x, factor.defined() ? &factor : &x, &y});
  if (y.element_count() == 0) return y;
  if (x.element_count() == 0) {
    fill(stream, 0.0 * scale, y);  // of a mean NaN
    return y;
  }
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    add_up(stream, sums_of(plan), input<S>(stream, x), input<S>(stream, factor), scale,
           output<T>(stream, y));
  });
  return y;
}

}  // namespace troupe::cuda
