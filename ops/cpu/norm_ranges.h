#pragma once
// Arguments of the parts of batch norm that are compiled for each instruction set, of f32 or f64.

#include <cstdint>

namespace troupe::cpu {

/// The arguments for one contiguous range of memory. Pointers refer to its first element.
template <class T>
struct NormStretch {
  std::int64_t length;
  std::int64_t period;
  std::int64_t channels;  // of the run, after which the coefficients repeat
  const T* slope;         // tile
  const T* offset;        // tile
  const T* x;
  const T* residual;  // null if none
  const T* scales;    // dropout's factors; null if none
  T* z;
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
template <class T>
struct NormBackward {
  NormMask mask;
  const T* grad;
  const T* x;
  const T* z;       // null unless the mask is from_z
  const T* slope;   // of norm(x), for the mask
  const T* offset;  // of norm(x), for the mask
  const T* mean;
  // dx = along_grad * masked grad + along_x * x + constant
  const T* along_grad;
  const T* along_x;
  const T* constant;
  T* dx;
  T* passed;  // the masked gradient, which the sums write; null if nobody needs it
};

}  // namespace troupe::cpu
