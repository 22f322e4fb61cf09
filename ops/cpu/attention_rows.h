#pragma once
// The parts of an attention that are compiled for each instruction set.

#include <cstdint>

namespace troupe::cpu {

/// Functions of rows of `count` elements of T, f32 or f64.
template <class T>
struct AttentionRows {
  T (*largest_of)(const T* x, std::int64_t count);  ///< NaN if one of them is
  /// x = exp(x - shift); returns the sum.
  T (*exponentials)(T* x, T shift, std::int64_t count);
  void (*multiply_by)(T* x, T factor, std::int64_t count);
  void (*add_mask)(T* x, const T* mask, std::int64_t stride, std::int64_t count);
  /// The gradient of the scores before the softmax: slopes = shares * (slopes - mean).
  void (*score_gradient)(const T* shares, T mean, T* slopes, std::int64_t count);
  T (*dot_product)(const T* a, const T* b, std::int64_t count);
  /// A matrix of dense rows, transposed.
  void (*transpose)(const T* from, std::int64_t rows, std::int64_t columns, T* to);
};

}  // namespace troupe::cpu
