#pragma once
// The reference: every kernel as a plain loop over f64 on one thread. It is what runs in double
// precision, and what faster kernels are tested against. A kernel of ops/kernel_list.inc is the
// function of that name in this namespace.

#include "ops/kernels.h"

namespace troupe::reference {

#define TROUPE_KERNEL(name, signature) std::type_identity_t<signature> name;
#include "ops/kernel_list.inc"

}  // namespace troupe::reference
