#pragma once
#include <cstdint>

namespace troupe::cpu {

/// Rows of a layer norm and their gradients.
struct LayerNormRows {
  const float *x, *weight, *bias, *grad;
  float *y, *dx;
  float *mean, *inverse_deviation;  ///< of each row
  std::int64_t features;
  double epsilon;
};

}  // namespace troupe::cpu
