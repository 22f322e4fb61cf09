#pragma once
#include <cstdint>
#include <vector>

#include "ops/kernels.h"

namespace troupe {

/// One loop of a copy between strided places (KernelTable::copy_elements), with its strides.
struct CopyAxis {
  std::int64_t size = 1, from = 0, to = 0;
};

/// The fewest loops over an index space, at least one: axes of size 1 are left out, and neighbours
/// that lie one behind the other in both tensors are merged. The axis that is innermost in `to`
/// comes last; if another one is dense in `from`, it comes before that.
std::vector<CopyAxis> copy_axes(const Shape& space, const ElementPlaces& from,
                                const ElementPlaces& to);

}  // namespace troupe
