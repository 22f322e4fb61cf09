#pragma once
#include <array>
#include <cstddef>
#include <numeric>
#include <span>

namespace troupe::reference {

/// The sum of the squares of f32 or f64 elements, in f64. Sixteen sums side by side, which a
/// compiler turns into vectors, so the order does not depend on the processor.
template <class T>
double square_sum_of(std::span<const T> elements) {
  std::array<double, 16> sums{};
  std::size_t i = 0;
  for (; i + sums.size() <= elements.size(); i += sums.size())
    for (std::size_t lane = 0; lane < sums.size(); ++lane) {
      const double value = elements[i + lane];
      sums[lane] += value * value;
    }
  for (std::size_t lane = 0; i < elements.size(); ++i, ++lane) {
    const double value = elements[i];
    sums[lane] += value * value;
  }
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace troupe::reference
