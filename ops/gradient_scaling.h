#pragma once
#include <limits>

namespace troupe {

/// What a step of an optimizer first does to each element of its gradient: it is limited to
/// [-limit, limit], then multiplied by the factor, in f64, and rounded. A NaN stays one.
struct GradientScaling {
  double limit = std::numeric_limits<double>::infinity();
  double factor = 1.0;

  double of(double gradient) const {
    return factor * (gradient < -limit ? -limit : gradient > limit ? limit : gradient);
  }
  bool operator==(const GradientScaling&) const = default;
};

}  // namespace troupe
