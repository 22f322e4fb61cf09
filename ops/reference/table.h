#pragma once
#include "ops/kernels.h"

namespace troupe::reference {

/// Every kernel as a plain loop on one thread: what `precision: f64` runs, and in f32 what the
/// fast kernels are tested against. Sums are taken in double precision. Made for T = float and
/// double.
template <class T>
const KernelTable& table();

}  // namespace troupe::reference
