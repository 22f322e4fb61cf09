#include <gtest/gtest.h>

#include "emulated.h"
#include "ops/kernels.h"

namespace troupe::testing {
namespace {

TEST(CudaKernelTable, HasAKernelOfItsOwnForEachOfTheCpu) {
  const EmulatedStream stream;
  const KernelTable& cpu = kernels(Device::cpu(), DType::f32);
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    const KernelTable& cuda = kernels(stream.get().device, dtype);
#define TROUPE_KERNEL(name, signature)                          \
  EXPECT_NE(cuda.name, nullptr) << #name " " << name_of(dtype); \
  EXPECT_NE(cuda.name, cpu.name) << #name " " << name_of(dtype);
#include "ops/kernel_list.inc"
  }
}

}  // namespace
}  // namespace troupe::testing
