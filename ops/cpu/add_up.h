#pragma once
#include <cstdint>

#include "ops/cpu/pieces.h"

namespace troupe::cpu {

/// Element by element, the sums of `count` numbers of each of the partial sums times `scale`: added
/// in f64, in the order of the partial sums. No partial sums: zeros.
void add_up_in_f64(const Stream& stream, const Partials& partials, std::int64_t count, double scale,
                   float* to);

}  // namespace troupe::cpu
