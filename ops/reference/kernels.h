#pragma once
// The reference: every kernel as a plain loop over f64 on one thread. It is what faster kernels are
// tested against, and what runs in double precision where ops/cpu has nothing faster. A kernel of
// ops/kernel_list.inc is the function of that name in this namespace.

#include "ops/kernels.h"

namespace troupe::reference {

#define TROUPE_KERNEL(name, signature) std::type_identity_t<signature> name;
#include "ops/kernel_list.inc"

}  // namespace troupe::reference
