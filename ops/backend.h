#pragma once
#include "runtime/tensor/backend.h"
#include "runtime/tensor/device.h"

namespace troupe {

/// The backend of a device.
const Backend& backend(Device device);

}  // namespace troupe
