#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A type of GPU, known from its data sheet, for plans on login nodes and in tests.
struct DescribedDevice {
  std::string title;                     ///< as its driver calls it: "NVIDIA H200"
  int architecture = 90;                 ///< 90: sm_90
  std::int64_t memory_bytes = 0;         ///< of the whole device
  std::vector<std::uint8_t> properties;  ///< cuDNN's JSON of a device's properties
};

/// The names that described_device knows: "a100", "h100", …
std::vector<std::string_view> described_devices();

/// A device by its name; nothing for other names. The properties are those of NVIDIA's data sheets,
/// entered by hand: none was read from a device.
std::optional<DescribedDevice> described_device(std::string_view name);

}  // namespace troupe
