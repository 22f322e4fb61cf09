#pragma once
#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace troupe::reference {

/// The numbers of a row of KernelTable::take_images's windows.
inline constexpr std::int64_t window_numbers = 5;

/// Writes images [first, last) of KernelTable::take_images's result y.
void take_windows(const Tensor& x, const Tensor& windows, std::int64_t first, std::int64_t last,
                  const Tensor& y);

/// The shape of the result of KernelTable::take_images. Throws Error{internal} for other arguments
/// than it has.
Shape taken_shape(const Tensor& x, const Tensor& windows);

}  // namespace troupe::reference
