#pragma once
// The f32 kernels of this CPU: oneDNN for convolution, linear and reorder, Highway for the rest. A
// kernel of ops/kernel_list.inc is the function of that name in this namespace. Some take f64 too:
// those that ops/cpu/backend.cpp lists for it.

#include "ops/kernels.h"

namespace troupe::cpu {

#define TROUPE_KERNEL(name, signature) std::type_identity_t<signature> name;
#include "ops/kernel_list.inc"

}  // namespace troupe::cpu
