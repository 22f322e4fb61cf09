#pragma once
#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace troupe::reference {

/// Writes images [first, last) of KernelTable::look_up's result y.
void look_up_images(const Tensor& x, const Tensor& values, std::int64_t first, std::int64_t last,
                    const Tensor& y);

/// Throws Error{internal} for arguments other than those of KernelTable::look_up.
void check_look_up(const Tensor& x, const Tensor& values, Layout layout);

}  // namespace troupe::reference
