#pragma once
// Sums of products of f64, blocked for registers: what convolutions, linear layers, products of
// matrices and attention in f64 are made of. The order of additions depends on the sizes and the
// width of the vectors only. A caller splits the work over threads.

#include <cstdint>
#include <span>

namespace troupe::cpu {

/// A matrix [rows, depth], arranged in panels of eight rows for add_scaled_rows: element (m, k)
/// lies at (m / 8 * depth + k) * 8 + m % 8; the rows that fill up the last panel are zeroes.
struct PackedRows {
  std::int64_t rows = 0, depth = 0;
  const double* values = nullptr;

  static constexpr std::int64_t panel = 8;

  /// The number of `values`.
  static std::int64_t elements(std::int64_t rows, std::int64_t depth) {
    return (rows + panel - 1) / panel * panel * depth;
  }

  /// In memory for that many; `element(m, k)` gives the elements.
  template <class Element>
  static PackedRows in(double* memory, std::int64_t rows, std::int64_t depth,
                       const Element& element) {
    double* to = memory;
    for (std::int64_t first = 0; first < rows; first += panel)
      for (std::int64_t k = 0; k < depth; ++k)
        for (std::int64_t m = first; m < first + panel; ++m) *to++ = m < rows ? element(m, k) : 0.0;
    return {rows, depth, memory};
  }
};

/// What a sum of add_scaled_rows begins with: the element of c, else bias[m], else 0.
struct SumStart {
  bool adds = false;  ///< to the element of c
  const double* bias = nullptr;
};
/// c[m * c_stride + p] = start + sum over k of a(m, k) * b[offsets[k] + p], for all rows m of a and
/// p in [0, columns).
void add_scaled_rows(const PackedRows& a, const double* b, const std::int64_t* offsets,
                     std::int64_t columns, const SumStart& start, double* c, std::int64_t c_stride);

/// One side of dot products: vectors that lie in memory in several parts of equal length.
struct DotRows {
  const double* data = nullptr;
  std::int64_t segment_stride = 0;  ///< from one part of a vector to its next
};

/// The parts of each vector, and the elements of a part.
struct DotSizes {
  std::int64_t segments = 1, length = 0;
};
/// c[m * c_stride + k] += sum over segments s and p in [0, length) of a.data[s * a.segment_stride +
/// a_offsets[m] + p] * b.data[s * b.segment_stride + b_offsets[k] + p].
void add_dot_products(const DotSizes& sizes, const DotRows& a,
                      std::span<const std::int64_t> a_offsets, const DotRows& b,
                      std::span<const std::int64_t> b_offsets, double* c, std::int64_t c_stride);

}  // namespace troupe::cpu
