#pragma once

namespace troupe::cpu {

/// Pointers to the first element of each array; the new arrays may be the old ones. `momentum` is
/// null in the first step.
struct MomentumArrays {
  const float* weights;
  const float* momentum;
  float* new_weights;
  float* new_momentum;
};

}  // namespace troupe::cpu
