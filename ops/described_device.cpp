#include "ops/described_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

namespace troupe {
namespace {

/// What differs between the devices.
struct DataSheet {
  std::string_view name;   // ours
  std::string_view title;  // the driver's
  int architecture;
  int multiprocessors;
  std::int64_t memory_bytes;
  std::int64_t block_shared_bytes;  // the most that a block can ask for
  std::int64_t l2_bytes;
  int clock_khz, memory_clock_khz;
};

constexpr std::int64_t mib = std::int64_t{1} << 20, gib = std::int64_t{1} << 30;
constexpr std::int64_t shared_of_ampere = 163 << 10, shared_of_hopper = 227 << 10;

constexpr std::array sheets{DataSheet{"a100", "NVIDIA A100-SXM4-40GB", 80, 108, 40 * gib,
                                      shared_of_ampere, 40 * mib, 1'410'000, 1'215'000},
                            DataSheet{"a100-80gb", "NVIDIA A100-SXM4-80GB", 80, 108, 80 * gib,
                                      shared_of_ampere, 40 * mib, 1'410'000, 1'593'000},
                            DataSheet{"h100", "NVIDIA H100 80GB HBM3", 90, 132, 80 * gib,
                                      shared_of_hopper, 50 * mib, 1'980'000, 2'619'000},
                            DataSheet{"h200", "NVIDIA H200", 90, 132, 150'754'820'096,
                                      shared_of_hopper, 60 * mib, 1'980'000, 3'201'000},
                            DataSheet{"gh200", "NVIDIA GH200 480GB", 90, 132, 96 * gib,
                                      shared_of_hopper, 60 * mib, 1'980'000, 2'619'000},
                            DataSheet{"b200", "NVIDIA B200", 100, 148, 191'000'000'000,
                                      shared_of_hopper, 132'644'864, 1'965'000, 3'996'000}};

/// With the names of cuDNN's own device properties, all of which it wants.
std::string json_of(const DataSheet& sheet) {
  return fmt::format(
      R"({{"deviceVer": {}, "driverVer": 13000, "cudaDeviceId": 0, "totalGlobalMem": {},
"multiProcessorCount": {}, "warpSize": 32, "maxGridSize": [2147483647, 65535, 65535],
"maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536, "maxSharedMemoryPerBlock": 49152,
"maxSharedMemoryPerBlockOptin": {}, "reservedSharedMemoryPerBlock": 1024,
"maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024,
"maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1,
"smClockRateKHz": {}, "memClockRateKHz": {}, "l2CacheSize": {}, "deviceName": "{}"}})",
      sheet.architecture * 10, sheet.memory_bytes, sheet.multiprocessors, sheet.block_shared_bytes,
      sheet.clock_khz, sheet.memory_clock_khz, sheet.l2_bytes, sheet.title);
}

}  // namespace

std::vector<std::string_view> described_devices() {
  std::vector<std::string_view> names;
  std::transform(sheets.begin(), sheets.end(), std::back_inserter(names),
                 [](const DataSheet& sheet) { return sheet.name; });
  return names;
}

std::optional<DescribedDevice> described_device(std::string_view name) {
  const auto* const sheet = std::find_if(sheets.begin(), sheets.end(),
                                         [&](const DataSheet& s) { return s.name == name; });
  if (sheet == sheets.end()) return std::nullopt;
  const std::string json = json_of(*sheet);
  return DescribedDevice{.title = std::string(sheet->title),
                         .architecture = sheet->architecture,
                         .memory_bytes = sheet->memory_bytes,
                         .properties = {json.begin(), json.end()}};
}

}  // namespace troupe
