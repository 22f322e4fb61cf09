#pragma once
// The losses that are means over a sample's outputs. The kernels of the CPU use the same formulas,
// in f64, and round the gradient: they take little time beside the model.

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace troupe::reference {

/// Of one output and its target.
struct ElementLoss {
  double loss, slope;  ///< slope: d loss / d output
  bool correct;
};

inline ElementLoss squared_error_of(double x, double target) {
  return {(x - target) * (x - target), 2 * (x - target), false};
}

/// Finite for every finite x: the exponent is never positive.
inline ElementLoss binary_cross_entropy_of(double x, double target) {
  const double small = std::exp(-std::abs(x));
  const double probability = (x < 0 ? small : 1.0) / (1.0 + small);
  const double largest = x < 0 ? 0.0 : x;  // a NaN stays one
  return {largest - x * target + std::log1p(small), probability - target,
          target >= 0.5 ? x > 0 : x <= 0};
}

/// A sample's mean over `count` outputs. Writes d(loss * scale) / d(output) unless `gradient` is
/// null.
template <ElementLoss (*of)(double x, double target), class T>
ElementLoss mean_loss(const T* outputs, const T* targets, std::int64_t count, double scale,
                      T* gradient) {
  ElementLoss sample{0, 0, true};
  for (std::int64_t i = 0; i < count; ++i) {
    const ElementLoss one = of(outputs[i], targets[i]);
    sample.loss += one.loss;
    sample.correct = sample.correct && one.correct;
    if (gradient != nullptr)
      gradient[i] = static_cast<T>(scale * one.slope / static_cast<double>(count));
  }
  sample.loss /= static_cast<double>(count);
  return sample;
}

}  // namespace troupe::reference
