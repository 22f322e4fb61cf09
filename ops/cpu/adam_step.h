#pragma once

namespace troupe::cpu {

/// Pointers to the first element of each array; the new arrays may be the old ones. The averages
/// are null in the first update.
struct AdamArrays {
  const float* weights;
  const float* exp_avg;
  const float* exp_avg_sq;
  float* new_weights;
  float* new_exp_avg;
  float* new_exp_avg_sq;
};

}  // namespace troupe::cpu
