#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/gradient_scaling.h"

namespace troupe::cpu {

/// Calls step(scaled, begin, end) for consecutive parts of the range, where `scaled` points to the
/// scaled elements of `gradient` from `begin` on: a part that is still in the cache.
template <class F>
void for_scaled_parts(const GradientScaling& scaling, const float* gradient, std::int64_t begin,
                      std::int64_t end, const F& step) {
  if (scaling == GradientScaling()) return step(gradient + begin, begin, end);
  const auto limit = scaling.limit_in<float>();
  std::array<float, 2048> part;
  while (begin < end) {
    const std::int64_t count = std::min<std::int64_t>(std::ssize(part), end - begin);
    std::transform(gradient + begin, gradient + begin + count, part.begin(), [&](float value) {
      return static_cast<float>(std::clamp(value, -limit, limit) * scaling.factor);
    });
    step(part.data(), begin, begin + count);
    begin += count;
  }
}

}  // namespace troupe::cpu
