#pragma once
// Arguments of the parts of batch norm that are compiled for each instruction set.

#include <cstdint>

namespace troupe::cpu {

/// The arguments for one contiguous range of memory. Pointers refer to its first element.
struct NormStretch {
  std::int64_t length;
  std::int64_t period;
  std::int64_t channels;  // of the run, after which the coefficients repeat
  const float* slope;     // tile
  const float* offset;    // tile
  const float* x;
  const float* residual;  // null if none
  const float* scales;    // dropout's factors; null if none
  float* z;
  bool relu;
  bool residual_first;
};

/// Which elements pass their gradient through the epilogue.
enum class NormMask {
  none,    ///< all pass
  from_x,  ///< where norm(x), computed again, let relu pass
  from_z,  ///< where the output is not zero, after relu and dropout or after relu of a sum
};

/// Pointers to a whole tensor, and to tiles (see Panel) of per-channel coefficients.
struct NormBackward {
  NormMask mask;
  const float* grad;
  const float* x;
  const float* z;       // null unless the mask is from_z
  const float* slope;   // of norm(x), for the mask
  const float* offset;  // of norm(x), for the mask
  const float* mean;
  // dx = along_grad * masked grad + along_x * x + constant
  const float* along_grad;
  const float* along_x;
  const float* constant;
  float* dx;
  float* passed;  // the masked gradient, which the sums write; null if nobody needs it
};

}  // namespace troupe::cpu
