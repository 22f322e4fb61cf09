#include "runtime/tensor/cast.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "runtime/error.h"

namespace troupe {
namespace {

TEST(Cast, KnowsEveryHalfAgain) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const float value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(value))));
    } else {
      EXPECT_EQ(to_float16(value).bits, bits) << value;
    }
    const BFloat16 brain{static_cast<std::uint16_t>(bits)};
    if (!std::isnan(to_float(brain))) {
      EXPECT_EQ(to_bfloat16(to_float(brain)).bits, bits);
    }
  }
}

TEST(Cast, ReadsKnownHalves) {
  EXPECT_EQ(to_float(Float16{0x3C00}), 1.0f);
  EXPECT_EQ(to_float(Float16{0xC000}), -2.0f);
  EXPECT_EQ(to_float(Float16{0x0001}), 0x1p-24f);
  EXPECT_EQ(to_float(Float16{0x7BFF}), 65504.0f);
  EXPECT_EQ(to_float(BFloat16{0x3F80}), 1.0f);
}

TEST(Cast, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(to_float16(1.0f + 0x1p-11f).bits, 0x3C00);  // halfway, down to even
  EXPECT_EQ(to_float16(1.0f + 3 * 0x1p-11f).bits, 0x3C02);
  EXPECT_EQ(to_float16(1.0f + 0x1.1p-11f).bits, 0x3C01);
  EXPECT_EQ(to_float16(0x1p-25f).bits, 0);
  EXPECT_EQ(to_float16(65520.0f).bits, 0x7C00);
  EXPECT_EQ(to_bfloat16(1.0f + 0x1p-8f).bits, 0x3F80);
  EXPECT_EQ(to_bfloat16(1.0f + 3 * 0x1p-8f).bits, 0x3F82);
}

TEST(Cast, KeepsInfinityAndNaN) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(to_float(to_float16(-infinity)), -infinity);
  EXPECT_EQ(to_float(to_bfloat16(infinity)), infinity);
  EXPECT_TRUE(std::isnan(to_float(to_float16(nan))));
  EXPECT_TRUE(std::isnan(to_float(to_bfloat16(nan))));
}

TEST(Cast, GivesBackATensorOfTheRightTypeItself) {
  const Tensor tensor = Tensor::zeros(Shape{3});
  EXPECT_EQ(cast(tensor, DType::f32).raw(), tensor.raw());
}

TEST(Cast, ConvertsBetweenAllFloatingTypesAndKeepsTheLayout) {
  const std::array types = {DType::f32, DType::f64, DType::bf16, DType::f16};
  Tensor tensor = Tensor::empty(Shape{1, 2, 2, 1}, DType::f32, Device::cpu(), Layout::nhwc);
  const std::array<float, 4> numbers = {0.5f, -3.0f, 0.0f, 96.0f};
  std::copy(numbers.begin(), numbers.end(), tensor.data<float>());
  for (const DType from : types)
    for (const DType to : types) {
      const Tensor back = cast(cast(cast(tensor, from), to), DType::f32);
      EXPECT_EQ(back.layout(), Layout::nhwc);
      for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(back.data<float>()[i], numbers[i]);
    }
}

TEST(Widest, IsI64OfIntegersAndTruthValuesAndF64OfOthers) {
  for (int i = 0; i <= static_cast<int>(last_enumerator(DType())); ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor ones = visit_element(dtype, [](auto element) {
      using T = typename decltype(element)::type;
      Tensor one = Tensor::empty(Shape{1}, dtype_of<T>, Device::cpu());
      if constexpr (std::is_same_v<T, BFloat16>)
        *one.data<T>() = to_bfloat16(1.0f);
      else if constexpr (std::is_same_v<T, Float16>)
        *one.data<T>() = to_float16(1.0f);
      else
        *one.data<T>() = T{1};
      return one;
    });
    ASSERT_EQ(ones.dtype(), dtype) << "the type that its elements are stored as";
    ASSERT_EQ(ones.bytes(), size_of(dtype));
    const Tensor wide = widest(ones);
    if (is_floating(dtype))
      EXPECT_EQ(*wide.data<double>(), 1.0) << name_of(dtype);
    else
      EXPECT_EQ(*wide.data<std::int64_t>(), 1) << name_of(dtype);
  }
  Tensor negative = Tensor::empty(Shape{1}, DType::i8, Device::cpu());
  *negative.data<std::int8_t>() = -128;
  EXPECT_EQ(*widest(negative).data<std::int64_t>(), -128);
}

TEST(Cast, RefusesIntegers) {
  EXPECT_THROW(cast(Tensor::zeros(Shape{1}, DType::i64), DType::f32), Error);
  EXPECT_THROW(cast(Tensor::zeros(Shape{1}), DType::u8), Error);
}

}  // namespace
}  // namespace troupe
