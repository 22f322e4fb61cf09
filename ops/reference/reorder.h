#pragma once
#include <cstdint>

#include "runtime/tensor/tensor.h"

namespace troupe::reference {

/// Where element (n, c, h, w) lies in memory, in elements.
std::int64_t element_offset(Layout layout, const Shape& shape, std::int64_t n, std::int64_t c,
                            std::int64_t h, std::int64_t w);

/// The tensor itself if it has this layout, else a reordered copy. The loops of this folder work on
/// row-major tensors and call this at their edges.
Tensor in_layout(const Tensor& tensor, Layout layout);

inline Tensor row_major(const Tensor& tensor) { return in_layout(tensor, Layout::row_major); }

}  // namespace troupe::reference
