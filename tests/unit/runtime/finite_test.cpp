#include "runtime/tensor/finite.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace troupe {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

template <class T>
Tensor ramp_with(T value, std::int64_t at) {
  Tensor tensor = Tensor::empty(Shape{5, 7}, dtype_of<T>, Device::cpu());
  for (std::int64_t i = 0; i < 35; ++i) tensor.data<T>()[i] = static_cast<T>(i);
  tensor.data<T>()[at] = value;
  return tensor;
}

TEST(FirstNotFinite, FindsNanAndBothInfinities) {
  for (const double value : {std::nan(""), -std::nan(""), infinite, -infinite}) {
    const Tensor wide = ramp_with(value, 34), narrow = ramp_with(static_cast<float>(value), 3);
    EXPECT_EQ(first_not_finite(wide), 34);
    EXPECT_EQ(first_not_finite(narrow), 3);
    const char* text = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    EXPECT_EQ(not_finite_text(wide, 34), text);
    EXPECT_EQ(not_finite_text(narrow, 3), text);
  }
}

TEST(FirstNotFinite, TakesTheLargestNumbersAndIntegers) {
  EXPECT_EQ(first_not_finite(ramp_with(-std::numeric_limits<float>::max(), 3)), std::nullopt);
  EXPECT_EQ(first_not_finite(ramp_with(std::numeric_limits<double>::max(), 3)), std::nullopt);
  EXPECT_EQ(first_not_finite(ramp_with<std::int64_t>(-1, 3)), std::nullopt);
  EXPECT_EQ(first_not_finite(Tensor::zeros(Shape{0, 3})), std::nullopt);
}

TEST(FirstNotFinite, ReadsNumbersOfSixteenBits) {
  Tensor half = Tensor::zeros(Shape{3}, DType::f16), brain = Tensor::zeros(Shape{3}, DType::bf16);
  half.data<Float16>()[0] = {0xfbff};  // the largest ones, of both signs
  half.data<Float16>()[1] = {0x7bff};
  brain.data<BFloat16>()[0] = {0xff7f};
  brain.data<BFloat16>()[1] = {0x7f7f};
  EXPECT_EQ(first_not_finite(half), std::nullopt);
  EXPECT_EQ(first_not_finite(brain), std::nullopt);
  half.data<Float16>()[2] = {0xfc00};
  brain.data<BFloat16>()[2] = {0x7f81};
  EXPECT_EQ(not_finite_text(half, first_not_finite(half).value()), "-inf");
  EXPECT_EQ(not_finite_text(brain, first_not_finite(brain).value()), "nan");
}

}  // namespace
}  // namespace troupe
