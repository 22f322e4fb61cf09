#pragma once
#include <cstdint>

#include "runtime/random.h"
#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

/// Which elements of one tensor are dropped, and where they lie in its memory.
struct DropoutPattern {
  RandomKey random;
  std::uint32_t threshold = 0;  ///< a number below it drops its element
  float scale = 1.0f;           ///< of the elements that stay: 1 / (1 - probability)

  // Memory is images of `plane` rows of `width` channels; in a linear one (row_major), memory
  // order is the logical order and these are not used.
  bool linear = true;
  std::int64_t channels = 1;
  std::int64_t plane = 1;
  std::int64_t width = 1;

  /// Throws unless 0 <= probability < 1.
  static DropoutPattern of(const Tensor& x, double probability, const RandomKey& random);
};

/// Elements that a buffer for fill_scales must have beyond `length`.
inline constexpr std::int64_t scale_padding = 72;

/// For `length` elements of memory from `offset` on (whole rows, unless linear): 0 if dropped, else
/// the scale. Returns where in `buffer` they begin.
const float* fill_scales(const DropoutPattern& pattern, std::int64_t offset, std::int64_t length,
                         float* buffer);

}  // namespace troupe::cpu
