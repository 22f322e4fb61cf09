// NVML as apps/output/nvml.cpp reads it: the stand-in of tests/nvml, and on a GPU that of its
// driver.

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <string>

#include "apps/output/gpu_usage.h"

namespace troupe::testing {
namespace {

#ifdef TROUPE_CUDA_EMULATOR
constexpr const char* library = TROUPE_FAKE_NVML;
#else
constexpr const char* library = "libnvidia-ml.so.1";
#endif

TEST(ContractNvml, FindsTheDeviceByTheBusIdThatCudaTellsAndReadsItsUse) {
  cudaDeviceProp found{};
  ASSERT_EQ(cudaGetDeviceProperties(&found, 0), cudaSuccess);
  const std::string bus_id =
      fmt::format("{:08x}:{:02x}:{:02x}.0", found.pciDomainID, found.pciBusID, found.pciDeviceID);
  auto counter = open_nvml(bus_id, library);
#ifndef TROUPE_CUDA_EMULATOR
  if (!counter) GTEST_SKIP() << counter.error().message();  // as in some containers
#endif
  ASSERT_TRUE(counter) << counter.error().message();
  const GpuUsage usage = counter.value()->read();
  EXPECT_TRUE(usage.memory_mib || usage.utilisation_percent || usage.power_w);
  if (usage.memory_mib) {
    EXPECT_GT(*usage.memory_mib, 0) << "this process has a context";
    EXPECT_LT(*usage.memory_mib, 1 << 20);
  }
  if (usage.utilisation_percent) {  // none of a part of a GPU
    EXPECT_GE(*usage.utilisation_percent, 0);
    EXPECT_LE(*usage.utilisation_percent, 100);
  }
  if (usage.power_w) {
    EXPECT_GT(*usage.power_w, 1) << "watts";
    EXPECT_LT(*usage.power_w, 3000);
  }
}

TEST(ContractNvml, RefusesABusIdThatNoDeviceHas) {
  const auto counter = open_nvml("00000000:fe:1f.0", library);
  ASSERT_FALSE(counter);
  EXPECT_THAT(counter.error().message(), ::testing::HasSubstr("00000000:fe:1f.0"));
}

}  // namespace
}  // namespace troupe::testing
