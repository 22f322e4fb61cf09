#pragma once
#include <cstdint>
#include <vector>

#include "runtime/random.h"
#include "runtime/tensor/tensor.h"

namespace troupe::cpu {

/// Which elements of one tensor are dropped, and where they lie in its memory.
struct DropoutPattern {
  RandomKey random;
  std::uint32_t threshold = 0;  ///< a number below it drops its element
  double scale = 1.0;  ///< of the elements that stay: 1 / (1 - probability) in the tensor's type

  // Memory is images of `plane` rows of `width` channels; in a linear one (row_major), memory
  // order is the logical order and these are not used.
  bool linear = true;
  std::int64_t channels = 1;
  std::int64_t plane = 1;
  std::int64_t width = 1;

  /// Throws unless 0 <= probability < 1.
  static DropoutPattern of(const Tensor& x, double probability, const RandomKey& random);
};

/// The factors of a part of a tensor of T, f32 or f64. For one thread.
template <class T>
class DropoutScales {
 public:
  /// For parts of up to `length` elements.
  explicit DropoutScales(std::int64_t length);

  /// For `length` elements of memory from `offset` on (whole rows, unless linear): 0 if dropped,
  /// else the scale. They are valid until the next call.
  const T* fill(const DropoutPattern& pattern, std::int64_t offset, std::int64_t length);

 private:
  std::vector<float> drawn_;
  std::vector<T> widened_;  ///< of f64
};

}  // namespace troupe::cpu
