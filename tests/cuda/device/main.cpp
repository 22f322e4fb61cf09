// cuda_device_tests: tests of tests/cuda on a GPU. Without one none is run.

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>

#include <cstdio>
#include <cstdlib>

namespace {

constexpr int no_gpu = 77;  // SKIP_RETURN_CODE of ctest; bench/gpu/first_light knows it too

}  // namespace

int main(int argc, char** argv) {
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);  // as ops/cuda/module.cpp
  ::testing::InitGoogleMock(&argc, argv);
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found == cudaSuccess && count > 0) return RUN_ALL_TESTS();
  std::printf("skipped, no GPU: %s\n",
              found == cudaSuccess ? "none is there" : cudaGetErrorString(found));
  return no_gpu;
}
