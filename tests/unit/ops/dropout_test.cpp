// Dropout in f64.
#include <gmock/gmock.h>

#include "ops/kernels.h"
#include "vector_support.h"

namespace troupe {
namespace {

// PyTorch's factor in f64: that of the probability in f32 differs by up to 5e-7.
TEST(Dropout, InF64ScalesByAFactorOfAllDigits) {
  const Tensor ones = Tensor::empty({64}, DType::f64, Device::cpu());
  std::ranges::fill(ones.elements<double>(), 1.0);
  const Tensor y = kernels(Device::cpu(), DType::f64).dropout({}, ones, 0.9, {.seed = 1});
  for (const double number : y.elements<double>())
    EXPECT_THAT(number, testing::AnyOf(0.0, 1.0 / (1.0 - 0.9)));
  EXPECT_THAT(y.elements<double>(), testing::Contains(1.0 / (1.0 - 0.9)));
}

}  // namespace
}  // namespace troupe
