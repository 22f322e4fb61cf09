#pragma once

namespace troupe::cpu {

/// Pointers to the first element of a range; the new arrays may be the old ones.
struct SgdRange {
  const float* weights;
  const float* gradient;
  const float* momentum;
  float* new_weights;
  float* new_momentum;
};

}  // namespace troupe::cpu
