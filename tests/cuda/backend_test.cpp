// What the backend says of the emulated device.

#include "ops/backend.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "emulated.h"
#include "emulator/emulation.h"
#include "ops/kernels.h"
#include "ops/on_device.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

// Earlier GPUs have no instructions for it, and cuDNN no plans.
TEST(CudaBackend, MultipliesInBf16FromSm80On) {
  const Backend& cuda = *emulated_gpu().backend;
  for (const int architecture : {70, 75, 80, 90}) {
    const cuda_on_cpu::Emulation emulation({.architecture = architecture});
    EXPECT_EQ(cuda.multiplies(DType::bf16), architecture >= 80) << architecture;
    EXPECT_TRUE(cuda.multiplies(DType::f16)) << architecture;
  }
  const cuda_on_cpu::Emulation emulation({.architecture = 75});
  try {
    check_products({.device = emulated_gpu(), .products = DType::bf16});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.remedy(), "set `Stream::products` to 32-true or 16-mixed");
  }
}

// Variables by which NVIDIA's libraries round otherwise.
TEST(CudaBackend, NamesWhatChangesTheBits) {
  const Backend& cuda = *emulated_gpu().backend;
  const std::string without = cuda.fingerprint();
  ::setenv("CUBLAS_EMULATE_SINGLE_PRECISION", "1", 1);
  EXPECT_EQ(cuda.fingerprint(), without + ", CUBLAS_EMULATE_SINGLE_PRECISION=1");
  ::unsetenv("CUBLAS_EMULATE_SINGLE_PRECISION");
}

TEST(CudaBackend, RefusesTensorsOfTheCpu) {
  const EmulatedStream stream;
  const KernelTable table = kernels(emulated_gpu(), DType::f64);
  const Tensor here = random_tensor({3}, 1);
  const Tensor there = on_device(stream.get(), here);
  try {
    table.arithmetic(stream.get(), ArithmeticOperation::add, there, here);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "a kernel on cuda:0 is given a tensor of the CPU; copy the tensor with on_device()");
  }
}

}  // namespace
}  // namespace troupe::testing
