// cuda_device_tests: tests of tests/cuda on a GPU. Without one they are skipped.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <cstdlib>

namespace {

class Gpu : public ::testing::Environment {
  void SetUp() override {
    int count = 0;
    const cudaError_t found = cudaGetDeviceCount(&count);
    if (found == cudaSuccess && count > 0) return;
    GTEST_SKIP() << "no GPU: "
                 << (found == cudaSuccess ? "none is there" : cudaGetErrorString(found));
  }
};

}  // namespace

int main(int argc, char** argv) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // as ops/cuda/module.cpp
  ::testing::InitGoogleMock(&argc, argv);
  ::testing::AddGlobalTestEnvironment(new Gpu);
  return RUN_ALL_TESTS();
}
