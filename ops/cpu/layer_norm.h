#pragma once
#include <algorithm>
#include <cstdint>

namespace troupe::cpu {

/// The rows whose gradients of the weight and the bias are added up together, by the shape alone:
/// so many that writing the sums costs little, so few that in f32 they are exact to the last bits.
inline std::int64_t rows_of_chunk(std::int64_t features) {
  return std::clamp<std::int64_t>(32768 / std::max<std::int64_t>(1, features), 4, 32);
}

/// Rows of a layer norm and their gradients.
struct LayerNormRows {
  const float *x, *weight, *bias, *grad;
  float *y, *dx;
  float *mean, *inverse_deviation;  ///< of each row
  std::int64_t features;
  double epsilon;
};

}  // namespace troupe::cpu
