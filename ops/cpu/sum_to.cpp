#include <algorithm>
#include <vector>

#include "ops/cpu/add_up.h"
#include "ops/cpu/broadcast.h"
#include "ops/cpu/broadcast_rows.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/sum_to.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

enum class Factor { none, one, each };

template <Factor factor, class D>
HWY_INLINE hn::Vec<D> add_product(D d, hn::Vec<D> sum, const float* x, const float* by) {
  if constexpr (factor == Factor::none) return hn::Add(sum, hn::LoadU(d, x));
  if constexpr (factor == Factor::one) return hn::MulAdd(hn::LoadU(d, x), hn::Set(d, *by), sum);
  return hn::MulAdd(hn::LoadU(d, x), hn::LoadU(d, by), sum);
}

template <Factor factor>
void row_sums_as(const ProductRows& r, std::int64_t sum_step, double* sums) {
  constexpr std::int64_t each = factor == Factor::each ? 1 : 0;
  for (std::int64_t row = 0; row < r.rows; ++row)
    sums[row * sum_step] += sum_of_row(r.count, [&](auto d, std::int64_t i, auto sum) HWY_ATTR {
      return add_product<factor>(d, sum, r.x + row * r.x_step + i,
                                 r.factor + row * r.factor_step + each * i);
    });
}

/// Adds the sum of each row to its element of `sums`; sum_step 0: all to one.
void row_sums(const ProductRows& r, std::int64_t sum_step, double* sums) {
  if (r.factor == nullptr) return row_sums_as<Factor::none>(r, sum_step, sums);
  if (r.factor_repeats) return row_sums_as<Factor::one>(r, sum_step, sums);
  row_sums_as<Factor::each>(r, sum_step, sums);
}

template <Factor factor>
void column_sums_as(const ProductRows& r, float* sums) {
  constexpr std::int64_t each = factor == Factor::each ? 1 : 0;
  for_lanes(r.count, [&](auto d, std::int64_t i) HWY_ATTR {
    auto total = hn::LoadU(d, sums + i);
    for (std::int64_t row = 0; row < r.rows;) {
      const std::int64_t stop = std::min(r.rows, row + block_rows);
      auto sum = hn::Zero(d);
      for (; row < stop; ++row)
        sum = add_product<factor>(d, sum, r.x + row * r.x_step + i,
                                  r.factor + row * r.factor_step + each * i);
      total = hn::Add(total, sum);
    }
    hn::StoreU(total, d, sums + i);
  });
}

/// Adds all rows, element by element, to `sums`.
void column_sums(const ProductRows& r, float* sums) {
  if (r.factor == nullptr) return column_sums_as<Factor::none>(r, sums);
  if (r.factor_repeats) return column_sums_as<Factor::one>(r, sums);
  column_sums_as<Factor::each>(r, sums);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(row_sums);
HWY_EXPORT(column_sums);

namespace {

constexpr std::int64_t piece_elements = 8192;

std::int64_t divided(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

/// What a sum is divided into, by the shape alone. The axes of the plan, without the innermost one,
/// are sorted: those that the result keeps first, then those that are summed. So the rows of one
/// kept place are neighbours.
struct SumPlan {
  BroadcastPlan sorted;  // operands: x, factor, result
  bool inner_kept = false;
  std::int64_t kept = 1;    // places of the kept outer axes
  std::int64_t summed = 1;  // rows that are added up for each of them
  std::int64_t width = 0;   // of the columns or the part of a row of a piece
  std::int64_t widths = 0, chunk = 0, chunks = 0;

  std::int64_t pieces() const { return kept * widths * chunks; }
};

SumPlan sum_plan(const BroadcastPlan& plan) {
  SumPlan sum;
  sum.inner_kept = plan.inner().steps[2] != 0;
  int place = 0;
  for (const bool keeps : {true, false})
    for (int axis = 0; axis + 1 < plan.rank; ++axis) {
      const BroadcastPlan::Axis& a = plan.axes[static_cast<std::size_t>(axis)];
      if ((a.steps[2] != 0) != keeps) continue;
      sum.sorted.axes[static_cast<std::size_t>(place++)] = a;
      (keeps ? sum.kept : sum.summed) *= a.size;
    }
  sum.sorted.axes[static_cast<std::size_t>(place)] = plan.inner();
  sum.sorted.rank = plan.rank;
  const std::int64_t size = plan.inner().size;
  sum.width = std::min<std::int64_t>(size, sum.inner_kept ? 1024 : piece_elements);
  sum.widths = divided(size, sum.width);
  sum.chunk = std::clamp<std::int64_t>(2 * piece_elements / sum.width, 16, 128);
  sum.chunks = divided(sum.summed, sum.chunk);
  return sum;
}

struct Sources {
  const float *x, *factor;
};

/// Rows [begin, end) of a piece, which begin `column` elements into their rows.
template <class Use>
void for_row_runs(const SumPlan& sum, const Sources& from, std::int64_t begin, std::int64_t end,
                  std::int64_t column, const Use& use) {
  const BroadcastPlan::Axis inner = sum.sorted.inner();
  ProductRows r{};
  r.count = std::min(sum.width, inner.size - column);
  r.factor_repeats = inner.steps[1] == 0;
  for (RowWalk walk(sum.sorted, sum.sorted.rank - 1, begin, end); !walk.done(); walk.next()) {
    r.x = from.x + walk.offset(0) + column;
    r.factor = from.factor ? from.factor + walk.offset(1) + column * inner.steps[1] : nullptr;
    r.rows = walk.run();
    r.x_step = walk.step(0);
    r.factor_step = from.factor ? walk.step(1) : 0;
    use(r);
  }
}

/// Where the rows of a place, a chunk of them, and their columns are.
struct SumPiece {
  std::int64_t kept, chunk, begin, end, column;
};

SumPiece piece_of(const SumPlan& sum, std::int64_t index) {
  SumPiece piece{};
  piece.chunk = index % sum.chunks;
  piece.column = index / sum.chunks % sum.widths * sum.width;
  piece.kept = index / sum.chunks / sum.widths;
  piece.begin = piece.kept * sum.summed + piece.chunk * sum.chunk;
  piece.end = std::min(piece.begin + sum.chunk, (piece.kept + 1) * sum.summed);
  return piece;
}

std::int64_t grain_of(std::int64_t elements) {
  return std::max<std::int64_t>(1, elements_per_thread / std::max<std::int64_t>(1, elements));
}

/// Sums of columns: each piece has partial sums, added up in f64 in their order.
void sum_columns(const Stream& stream, const SumPlan& sum, const Sources& from, double scale,
                 float* to) {
  const std::int64_t size = sum.sorted.inner().size, outputs = sum.kept * size;
  const Tensor partial = Tensor::empty({sum.chunks, outputs}, DType::f32, stream.device);
  auto* partials = partial.data<float>();
  parallel(stream, sum.pieces(), grain_of(sum.width * std::min(sum.chunk, sum.summed)),
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t index = begin; index < end; ++index) {
               const SumPiece p = piece_of(sum, index);
               float* sums = partials + p.chunk * outputs + p.kept * size + p.column;
               std::fill_n(sums, std::min(sum.width, size - p.column), 0.0f);
               for_row_runs(sum, from, p.begin, p.end, p.column, [&](const ProductRows& r) {
                 HWY_DYNAMIC_DISPATCH(column_sums)(r, sums);
               });
             }
           });
  add_up_in_f64(stream, {partials, outputs, sum.chunks}, outputs, scale, to);
}

/// Sums of rows that are one part of one row each: neighbouring rows in one call.
void sum_single_rows(const Stream& stream, const SumPlan& sum, const Sources& from, double scale,
                     float* to) {
  parallel(stream, sum.kept, grain_of(sum.width), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(static_cast<std::size_t>(end - begin));
    double* next = sums.data();
    for_row_runs(sum, from, begin, end, 0, [&](const ProductRows& r) {
      HWY_DYNAMIC_DISPATCH(row_sums)(r, 1, next);
      next += r.rows;
    });
    for (std::int64_t i = begin; i < end; ++i)
      to[i] = static_cast<float>(sums[static_cast<std::size_t>(i - begin)] * scale);
  });
}

void sum_rows(const Stream& stream, const SumPlan& sum, const Sources& from, double scale,
              float* to) {
  if (sum.summed == 1 && sum.widths == 1) return sum_single_rows(stream, sum, from, scale, to);
  std::vector<double> partials(static_cast<std::size_t>(sum.pieces()));
  parallel(stream, sum.pieces(), grain_of(sum.width * std::min(sum.chunk, sum.summed)),
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t index = begin; index < end; ++index) {
               const SumPiece p = piece_of(sum, index);
               for_row_runs(sum, from, p.begin, p.end, p.column, [&](const ProductRows& r) {
                 HWY_DYNAMIC_DISPATCH(row_sums)
                 (r, 0, &partials[static_cast<std::size_t>(index)]);
               });
             }
           });
  const std::int64_t each = sum.widths * sum.chunks;
  for (std::int64_t i = 0; i < sum.kept; ++i) {
    double total = 0;
    for (std::int64_t part = 0; part < each; ++part)
      total += partials[static_cast<std::size_t>(i * each + part)];
    to[i] = static_cast<float>(total * scale);
  }
}

}  // namespace

Tensor sum_to(const Stream& stream, const Tensor& x, const Tensor& factor, const Shape& shape,
              double scale) {
  const bool one_channel = x.layout() != Layout::row_major && shape.rank() == 4 && shape[1] == 1;
  Tensor sums =
      Tensor::empty(shape, DType::f32, stream.device, one_channel ? Layout::row_major : x.layout());
  const BroadcastPlan plan = BroadcastPlan::of("sum_to", x.shape(), x.layout(),
                                               {&x, factor.defined() ? &factor : &x, &sums});
  if (sums.element_count() == 0) return sums;
  if (x.element_count() == 0) {
    const double none = 0.0 * scale;  // of a mean NaN
    std::ranges::fill(sums.elements<float>(), static_cast<float>(none));
    return sums;
  }
  const Sources from{x.data<float>(), factor.defined() ? factor.data<float>() : nullptr};
  const SumPlan sum = sum_plan(plan);
  const auto run = sum.inner_kept ? sum_columns : sum_rows;
  run(stream, sum, from, scale, sums.data<float>());
  return sums;
}

}  // namespace troupe::cpu
#endif
