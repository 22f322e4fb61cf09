#include <limits>

#include "runtime/error.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

class VectorElementwise : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(EveryLayout, VectorElementwise, testing::ValuesIn(images_and_rows()));

TEST_P(VectorElementwise, ReluKeepsPositiveValues) {
  const Tensor x = random_tensor(GetParam(), 1);
  const Tensor y = on_any_threads([&](const Stream& s) { return table().relu(s, x); });
  EXPECT_EQ(y.layout(), x.layout());
  for (std::int64_t i = 0; i < x.element_count(); ++i)
    ASSERT_EQ(y.data<float>()[i], std::max(x.data<float>()[i], 0.0f));
}

TEST_P(VectorElementwise, ReluBackwardPassesTheGradientOfPositiveOutputs) {
  const Tensor y = table().relu({}, random_tensor(GetParam(), 1));
  const Tensor grad = random_tensor(GetParam(), 2);
  const Tensor dx =
      on_any_threads([&](const Stream& s) { return table().relu_backward(s, y, grad); });
  for (std::int64_t i = 0; i < y.element_count(); ++i)
    ASSERT_EQ(dx.data<float>()[i], y.data<float>()[i] > 0 ? grad.data<float>()[i] : 0.0f);
}

TEST_P(VectorElementwise, ClampLimitsValuesOnBothSides) {
  const Tensor x = random_tensor(GetParam(), 1);
  const Tensor y = on_any_threads([&](const Stream& s) { return table().clamp(s, x, -0.5, 0.25); });
  EXPECT_EQ(y.layout(), x.layout());
  for (std::int64_t i = 0; i < x.element_count(); ++i)
    ASSERT_EQ(y.data<float>()[i], std::clamp(x.data<float>()[i], -0.5f, 0.25f));
}

TEST_P(VectorElementwise, AddAndAccumulateAgree) {
  const Tensor a = random_tensor(GetParam(), 1), b = random_tensor(GetParam(), 2);
  const Tensor sum = on_any_threads(
      [&](const Stream& s) { return table().arithmetic(s, ArithmeticOperation::add, a, b); });
  const Tensor accumulated = on_any_threads([&](const Stream& s) {
    Tensor copy = a.clone();
    table().accumulate(s, copy, b);
    return copy;
  });
  expect_same_bits(sum, accumulated);
  for (std::int64_t i = 0; i < a.element_count(); ++i)
    ASSERT_EQ(sum.data<float>()[i], a.data<float>()[i] + b.data<float>()[i]);
}

TEST(VectorElementwiseValues, ReluLetsNotANumberThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor y = table().relu({}, vector_of(std::vector<float>(21, nan)));
  for (float value : y.elements<float>()) EXPECT_TRUE(std::isnan(value));
  const Tensor dx = table().relu_backward({}, y, vector_of(std::vector<float>(21, 2.0f)));
  for (float value : dx.elements<float>()) EXPECT_EQ(value, 2.0f);
}

TEST(VectorElementwiseValues, ClampLimitsInfinityAndLetsNotANumberThrough) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const int count : {1, 21}) {
    const auto clamped = [&](float value) {
      return values_of(table().clamp({}, vector_of(std::vector<float>(count, value)), -2, 2));
    };
    EXPECT_EQ(clamped(infinity), std::vector<float>(count, 2.0f));
    EXPECT_EQ(clamped(-infinity), std::vector<float>(count, -2.0f));
    for (const float value : clamped(nan)) EXPECT_TRUE(std::isnan(value));
    EXPECT_EQ(values_of(table().clamp({}, vector_of(std::vector<float>(count, 0.0f)), 5, 1)),
              std::vector<float>(count, 1.0f))
        << "as PyTorch's clamp(5, 1)";
  }
}

TEST(VectorElementwiseValues, EmptyTensorsGiveEmptyTensors) {
  const Tensor empty = Tensor::empty({0, 3}, DType::f32, Device::cpu());
  EXPECT_EQ(table().relu({}, empty).element_count(), 0);
  EXPECT_EQ(table().arithmetic({}, ArithmeticOperation::add, empty, empty).element_count(), 0);
  EXPECT_EQ(table().dropout({}, empty, 0.5f, {}).element_count(), 0);
}

TEST(VectorElementwiseErrors, NameBothTensorsThatDoNotFit) {
  Tensor a = Tensor::zeros({2, 16, 3, 3});
  try {
    table().accumulate({}, a, Tensor::zeros({2, 16, 3, 4}));
    FAIL() << "shapes differ";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_shape);
    EXPECT_NE(error.message().find("[2, 16, 3, 3]"), std::string::npos) << error.message();
    EXPECT_NE(error.message().find("[2, 16, 3, 4]"), std::string::npos) << error.message();
  }
  const Tensor other_layout = Tensor::zeros({2, 16, 3, 3}, DType::f32, Layout::nhwc);
  EXPECT_THROW(table().accumulate({}, a, other_layout), Error);
  EXPECT_THROW(table().relu({}, Tensor::zeros({3}, DType::f64)), Error);
  EXPECT_THROW(table().relu_backward({}, a, Tensor()), Error);
}

}  // namespace
}  // namespace troupe
