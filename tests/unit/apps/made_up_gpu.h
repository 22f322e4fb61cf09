#pragma once
// A GPU for tests of what the command says of one; it computes nothing.

#include "ops/backend.h"

namespace troupe::test {

/// In the words of a GPU that rounds to TF32, or not, and multiplies in the types of `multiplies`.
inline Backend made_up_gpu(bool tf32, bool (*multiplies)(DType)) {
  Backend gpu = backend(Device::cpu());
  gpu.name = "cuda";
  gpu.has_tf32 = tf32 ? +[] { return true; } : +[] { return false; };
  gpu.multiplies = multiplies;
  return gpu;
}

/// As from sm_80 on.
inline Backend made_up_gpu() {
  return made_up_gpu(true, [](DType) { return true; });
}
/// As before sm_80.
inline Backend made_up_old_gpu() {
  return made_up_gpu(false, [](DType products) { return products != DType::bf16; });
}

}  // namespace troupe::test
