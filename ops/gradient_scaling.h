#pragma once
#include <algorithm>
#include <limits>

namespace troupe {

/// What a step of an optimizer first does to each element of its gradient: it is clamped to
/// [-limit, limit], multiplied by the factor in f64, and rounded. NaN stays NaN.
struct GradientScaling {
  double limit = std::numeric_limits<double>::infinity();
  double factor = 1.0;

  double of(double gradient) const { return factor * std::clamp(gradient, -limit, limit); }
  /// The limit in the type of the gradient: finite if the limit is.
  template <class T>
  T limit_in() const {
    constexpr double largest = std::numeric_limits<T>::max();
    return static_cast<T>(
        limit == std::numeric_limits<double>::infinity() ? limit : std::min(limit, largest));
  }
  bool operator==(const GradientScaling&) const = default;
};

}  // namespace troupe
