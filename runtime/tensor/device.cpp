#include "runtime/tensor/device.h"

#include <fmt/format.h>

#include "runtime/tensor/backend.h"

namespace troupe {

std::string to_string(Device device) {
  return device.backend ? fmt::format("{}:{}", device.backend->name, device.index) : "cpu";
}

}  // namespace troupe
