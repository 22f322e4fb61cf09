#pragma once
#include "runtime/tensor/backend.h"
#include "runtime/tensor/device.h"

namespace troupe {

/// The backend of a device.
const Backend& backend(Device device);

/// Throws Error{unsupported} unless the stream's device multiplies in the type of its products, and
/// has TF32 if the stream allows it.
void check_products(const Stream& stream);

}  // namespace troupe
