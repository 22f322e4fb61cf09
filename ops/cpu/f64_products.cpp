#include "ops/cpu/f64_products.h"

#include <algorithm>

#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/f64_products.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// The sums of `vectors` vectors of columns for `rows` rows of a panel. With the widest vectors,
/// eight rows of three vectors are as many sums as AVX-512 has registers for; with 16 registers
/// (AVX2), four rows.
template <int rows, int vectors, class D>
HWY_INLINE void scaled_rows_tile(D d, const double* HWY_RESTRICT a, std::int64_t depth,
                                 const double* HWY_RESTRICT b,
                                 const std::int64_t* HWY_RESTRICT offsets, const SumStart& start,
                                 std::int64_t valid_rows, double* c, std::int64_t c_stride) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<D> sums[rows][vectors];
  for (int m = 0; m < rows; ++m)
    for (int v = 0; v < vectors; ++v)
      sums[m][v] = m >= valid_rows || (!start.adds && start.bias == nullptr) ? hn::Zero(d)
                   : start.adds ? hn::LoadU(d, c + m * c_stride + v * lanes)
                                : hn::Set(d, start.bias[m]);
  for (std::int64_t k = 0; k < depth; ++k) {
    const double* row = b + offsets[k];
    const double* factors = a + k * PackedRows::panel;
    hn::Vec<D> x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = hn::LoadU(d, row + v * lanes);
    for (int m = 0; m < rows; ++m) {
      const auto factor = hn::Set(d, factors[m]);
      for (int v = 0; v < vectors; ++v) sums[m][v] = hn::MulAdd(factor, x[v], sums[m][v]);
    }
  }
  for (int m = 0; m < rows; ++m) {
    if (m >= valid_rows) break;
    for (int v = 0; v < vectors; ++v) hn::StoreU(sums[m][v], d, c + m * c_stride + v * lanes);
  }
}

template <int vectors, class D>
HWY_INLINE void scaled_rows_column(D d, const double* a, std::int64_t depth, std::int64_t rows,
                                   const double* b, const std::int64_t* offsets,
                                   const SumStart& start, double* c, std::int64_t c_stride) {
  constexpr int tile_rows = HWY_MAX_BYTES >= 64 ? 8 : 4;
  for (std::int64_t m = 0; m < rows; m += tile_rows) {
    const double* panel = a + m / PackedRows::panel * PackedRows::panel * depth;
    scaled_rows_tile<tile_rows, vectors>(d, panel + m % PackedRows::panel, depth, b, offsets,
                                         {start.adds, start.bias ? start.bias + m : nullptr},
                                         rows - m, c + m * c_stride, c_stride);
  }
}

void scaled_rows(const double* a, std::int64_t depth, std::int64_t rows, const double* b,
                 const std::int64_t* offsets, std::int64_t columns, const SumStart& start,
                 double* c, std::int64_t c_stride) {
  const hn::ScalableTag<double> wide;
  const hn::CappedTag<double, 1> single;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  std::int64_t p = 0;
  for (; p + 3 * lanes <= columns; p += 3 * lanes)
    scaled_rows_column<3>(wide, a, depth, rows, b + p, offsets, start, c + p, c_stride);
  for (; p + lanes <= columns; p += lanes)
    scaled_rows_column<1>(wide, a, depth, rows, b + p, offsets, start, c + p, c_stride);
  for (; p < columns; ++p)
    scaled_rows_column<1>(single, a, depth, rows, b + p, offsets, start, c + p, c_stride);
}

/// All dot products of `rows` vectors with `columns` others over whole vectors, then over the rest.
template <int rows, int columns>
HWY_INLINE void dot_tile(const DotSizes& sizes, const double* const* a, std::int64_t a_segment,
                         const double* const* b, std::int64_t b_segment, double* results) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = sizes.length / lanes * lanes;
  hn::Vec<decltype(d)> sums[rows][columns];
  for (int m = 0; m < rows; ++m)
    for (int k = 0; k < columns; ++k) sums[m][k] = hn::Zero(d);
  for (std::int64_t s = 0; s < sizes.segments; ++s) {
    const double *left[rows], *right[columns];
    for (int m = 0; m < rows; ++m) left[m] = a[m] + s * a_segment;
    for (int k = 0; k < columns; ++k) right[k] = b[k] + s * b_segment;
    for (std::int64_t p = 0; p < whole; p += lanes) {
      hn::Vec<decltype(d)> x[rows];
      for (int m = 0; m < rows; ++m) x[m] = hn::LoadU(d, left[m] + p);
      for (int k = 0; k < columns; ++k) {
        const auto y = hn::LoadU(d, right[k] + p);
        for (int m = 0; m < rows; ++m) sums[m][k] = hn::MulAdd(x[m], y, sums[m][k]);
      }
    }
  }
  for (int m = 0; m < rows; ++m)
    for (int k = 0; k < columns; ++k) {
      double sum = hn::GetLane(hn::SumOfLanes(d, sums[m][k]));
      for (std::int64_t s = 0; s < sizes.segments; ++s)
        for (std::int64_t p = whole; p < sizes.length; ++p)
          sum += a[m][s * a_segment + p] * b[k][s * b_segment + p];
      results[m * columns + k] = sum;
    }
}

void dot_products(const DotSizes& sizes, const DotRows& a, const std::int64_t* a_offsets,
                  std::int64_t rows, const DotRows& b, const std::int64_t* b_offsets,
                  std::int64_t columns, double* c, std::int64_t c_stride) {
  constexpr int tile_rows = 4, tile_columns = HWY_MAX_BYTES >= 64 ? 6 : 2;
  for (std::int64_t k = 0; k < columns; k += tile_columns)
    for (std::int64_t m = 0; m < rows; m += tile_rows) {
      // A tile at an edge repeats its last row or column, and drops what it computes of these.
      const double *left[tile_rows], *right[tile_columns];
      for (std::int64_t i = 0; i < tile_rows; ++i)
        left[i] = a.data + a_offsets[std::min(m + i, rows - 1)];
      for (std::int64_t i = 0; i < tile_columns; ++i)
        right[i] = b.data + b_offsets[std::min(k + i, columns - 1)];
      double results[tile_rows * tile_columns];
      dot_tile<tile_rows, tile_columns>(sizes, left, a.segment_stride, right, b.segment_stride,
                                        results);
      for (std::int64_t i = 0; i < tile_rows && m + i < rows; ++i)
        for (std::int64_t j = 0; j < tile_columns && k + j < columns; ++j)
          c[(m + i) * c_stride + k + j] += results[i * tile_columns + j];
    }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(scaled_rows);
HWY_EXPORT(dot_products);

void add_scaled_rows(const PackedRows& a, const double* b, const std::int64_t* offsets,
                     std::int64_t columns, const SumStart& start, double* c,
                     std::int64_t c_stride) {
  HWY_DYNAMIC_DISPATCH(scaled_rows)
  (a.values, a.depth, a.rows, b, offsets, columns, start, c, c_stride);
}

void add_dot_products(const DotSizes& sizes, const DotRows& a,
                      std::span<const std::int64_t> a_offsets, const DotRows& b,
                      std::span<const std::int64_t> b_offsets, double* c, std::int64_t c_stride) {
  HWY_DYNAMIC_DISPATCH(dot_products)
  (sizes, a, a_offsets.data(), static_cast<std::int64_t>(a_offsets.size()), b, b_offsets.data(),
   static_cast<std::int64_t>(b_offsets.size()), c, c_stride);
}

}  // namespace troupe::cpu
#endif
