#pragma once
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// The elements in nested brackets, by the axes of the shape whatever the layout, then type and
/// shape: "[[1, 2.5], [3, 4]] f32 [2, 2]". Of more than a thousand elements, three at both ends of
/// each axis. Of a tensor without elements, type and shape; of one in another device's memory, also
/// the device.
std::string to_string(const Tensor& tensor);

}  // namespace troupe
