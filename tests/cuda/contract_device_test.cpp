// The devices of ops/described_device.cpp against the one that is there. The emulated device
// has the limits of an H100.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "ops/described_device.h"

namespace troupe::testing {
namespace {

/// A number, or the first of a list, of cuDNN's JSON.
std::int64_t number_of(std::string_view json, const std::string& key) {
  const std::size_t at = json.find("\"" + key + "\": ");
  if (at == std::string_view::npos) return -1;
  return std::atoll(json.data() + json.find_first_of("0123456789", at + key.size() + 3));
}

/// The description of this name, else one of the same architecture and size; empty: none.
std::string description_of(const cudaDeviceProp& found) {
  std::string alike;
  for (const std::string_view name : described_devices()) {
    const auto device = described_device(name);
    std::string json(device->properties.begin(), device->properties.end());
    if (json.find(std::string("\"") + found.name + "\"") != std::string::npos) return json;
    if (alike.empty() && device->architecture == 10 * found.major + found.minor &&
        number_of(json, "multiProcessorCount") == found.multiProcessorCount)
      alike = std::move(json);
  }
  return alike;
}

TEST(ContractDevice, HasThePropertiesThatAreDescribed) {
  cudaDeviceProp found{};
  ASSERT_EQ(cudaGetDeviceProperties(&found, 0), cudaSuccess);
  const std::string json = description_of(found);
  if (json.empty()) GTEST_SKIP() << "no description of a device like " << found.name;
  const auto expect = [&](const char* key, std::int64_t value) {
    EXPECT_EQ(number_of(json, key), value) << "described " << key << " of " << found.name;
  };
  expect("deviceVer", 100 * found.major + 10 * found.minor);
  expect("multiProcessorCount", found.multiProcessorCount);
  expect("warpSize", found.warpSize);
  expect("maxGridSize", found.maxGridSize[0]);
  expect("maxBlockSize", found.maxThreadsDim[0]);
  expect("maxThreadsPerBlock", found.maxThreadsPerBlock);
  expect("maxThreadsPerSM", found.maxThreadsPerMultiProcessor);
  expect("maxCtasPerSM", found.maxBlocksPerMultiProcessor);
  expect("regsPerBlock", found.regsPerBlock);
  expect("maxRegistersPerSM", found.regsPerMultiprocessor);
  expect("maxSharedMemoryPerBlock", static_cast<std::int64_t>(found.sharedMemPerBlock));
  expect("maxSharedMemoryPerBlockOptin", static_cast<std::int64_t>(found.sharedMemPerBlockOptin));
  expect("reservedSharedMemoryPerBlock",
         static_cast<std::int64_t>(found.reservedSharedMemPerBlock));
  expect("l2CacheSize", found.l2CacheSize);
  // A driver keeps some of the memory for itself.
  const auto described = static_cast<double>(number_of(json, "totalGlobalMem"));
  EXPECT_LE(static_cast<double>(found.totalGlobalMem), described);
  EXPECT_GE(static_cast<double>(found.totalGlobalMem), 0.9 * described);
}

TEST(ContractDevice, HasADriverForTheRuntime) {
  int driver = 0, runtime = 0;
  EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  EXPECT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_GE(runtime, CUDART_VERSION / 1000 * 1000);
  EXPECT_GE(driver / 1000, runtime / 1000);
}

}  // namespace
}  // namespace troupe::testing
