#pragma once
#include "runtime/tensor/backend.h"
#include "runtime/tensor/device.h"

namespace troupe {

/// The backend of a device.
const Backend& backend(Device device);

/// Throws Error{unsupported} unless the stream's device multiplies in the type of its products.
/// TF32 is a permission, without effect on devices that lack it.
void check_products(const Stream& stream);

}  // namespace troupe
