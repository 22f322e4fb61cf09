#pragma once
#include <array>
#include <cstdint>

#include "runtime/random.h"

namespace troupe::reference {

/// The factor of each element of a tensor, 0 or 1 / (1 - probability). The same elements are
/// dropped as in f32. Call it for the elements in (N, C, H, W) order.
class DropoutScale {
 public:
  DropoutScale(double probability, const RandomKey& random)
      : probability_(static_cast<float>(probability)),
        kept_(1.0 / (1.0 - probability)),
        random_(random) {}

  double operator()(std::int64_t element) {
    if (element % 4 == 0) numbers_ = random_.block(static_cast<std::uint32_t>(element / 4));
    return uniform_float(numbers_[static_cast<std::size_t>(element % 4)]) < probability_ ? 0.0
                                                                                         : kept_;
  }

 private:
  float probability_;
  double kept_;
  RandomKey random_;
  std::array<std::uint32_t, 4> numbers_{};
};

}  // namespace troupe::reference
