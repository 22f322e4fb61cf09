#pragma once
#include <cstdint>

namespace troupe::cpu {

/// Rows of results, one behind the other, and of the operands.
struct ArithmeticRows {
  const float *a, *b;
  float* y;
  std::int64_t rows, count;     ///< `count` elements in each row
  std::int64_t a_step, b_step;  ///< between rows
  bool a_repeats, b_repeats;    ///< one element for all of a row
};

/// Rows of x and of a factor.
struct ProductRows {
  const float *x, *factor;           ///< no factor: null
  std::int64_t rows, count;          ///< `count` elements in each row
  std::int64_t x_step, factor_step;  ///< between rows
  bool factor_repeats;               ///< one factor for all of a row
};

}  // namespace troupe::cpu
