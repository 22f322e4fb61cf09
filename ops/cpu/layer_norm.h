#pragma once
#include <algorithm>
#include <cstdint>

namespace troupe::cpu {

/// How many rows are summed into one partial gradient of the weight and the bias. It depends on the
/// shape alone: enough that writing the sums costs little, few enough that a sum in f32 errs in
/// its last bits only.
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
