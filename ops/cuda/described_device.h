#pragma once
#include <cstdint>
#include <vector>

namespace troupe::cuda {

/// A device that is not there, for plans on login nodes and in tests.
struct DescribedDevice {
  int architecture = 90;                 ///< 90: sm_90
  std::vector<std::uint8_t> properties;  ///< cuDNN's JSON of a device's properties
};

}  // namespace troupe::cuda
