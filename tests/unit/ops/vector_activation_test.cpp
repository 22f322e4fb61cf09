#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "ops/primitives/activation.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

constexpr std::array all_functions{ActivationFunction::sigmoid,   ActivationFunction::tanh,
                                   ActivationFunction::silu,      ActivationFunction::gelu,
                                   ActivationFunction::gelu_tanh, ActivationFunction::hardsigmoid,
                                   ActivationFunction::hardswish};

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

Tensor reference_values(ActivationFunction function, const Tensor& x) {
  return kernels({}, DType::f64).activate({}, function, cast(x, DType::f64));
}

Tensor reference_gradients(ActivationFunction function, const Tensor& saved, const Tensor& grad) {
  return kernels({}, DType::f64)
      .activate_backward({}, function, cast(saved, DType::f64), cast(grad, DType::f64));
}

/// The numbers from -low to high, close to each other.
Tensor numbers_between(double low, double high) {
  constexpr int count = 40001;
  std::vector<float> values;
  for (int i = 0; i < count; ++i)
    values.push_back(static_cast<float>(low + (high - low) * i / (count - 1)));
  return vector_of(values);
}

/// The largest |a - b| in units of the last place of b.
double largest_error(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (std::int64_t i = 0; i < a.element_count(); ++i) {
    const double expected = b.data<double>()[i];
    const auto rounded = static_cast<float>(std::abs(expected));
    const double unit = std::nextafter(rounded, infinity) - rounded;
    const double error = std::abs(static_cast<double>(a.data<float>()[i]) - expected) / unit;
    if (!(error <= largest)) largest = error;  // keeps NaN
  }
  return largest;
}

class VectorActivation : public testing::TestWithParam<ActivationFunction> {};
INSTANTIATE_TEST_SUITE_P(EachFunction, VectorActivation, testing::ValuesIn(all_functions));

// The relative error of an exponential grows with its argument: where gelu_tanh is nearly 0, that
// is 50.
TEST_P(VectorActivation, HasTheValueToAFewUnitsOfTheLastPlace) {
  for (const auto& [low, high, units] :
       {std::tuple{-2.0, 8.0, 8.0}, std::tuple{-8.0, -2.0, 128.0}}) {
    const Tensor x = numbers_between(low, high);
    const Tensor y = table().activate({}, GetParam(), x);
    EXPECT_LT(largest_error(y, reference_values(GetParam(), x)), units);
  }
}

TEST_P(VectorActivation, HasTheGradientToAFewRoundings) {
  const Tensor x = numbers_between(-8, 8), grad = numbers_between(-3, 2);
  const Tensor saved = derives_from_output(GetParam()) ? table().activate({}, GetParam(), x) : x;
  const Tensor dx = table().activate_backward({}, GetParam(), saved, grad);
  EXPECT_LT(distance(values_of(dx),
                     values_of(cast(reference_gradients(GetParam(), saved, grad), DType::f32))),
            2e-6);
}

TEST_P(VectorActivation, DoesNotDependOnThreadsOrLayout) {
  for (const Case& c : images_and_rows()) {
    const Tensor x = random_tensor(c, 1), grad = random_tensor(c, 2);
    const Tensor y =
        on_any_threads([&](const Stream& s) { return table().activate(s, GetParam(), x); });
    EXPECT_EQ(y.layout(), x.layout());
    const Tensor& saved = derives_from_output(GetParam()) ? y : x;
    const Tensor dx = on_any_threads(
        [&](const Stream& s) { return table().activate_backward(s, GetParam(), saved, grad); });
    EXPECT_EQ(dx.layout(), x.layout());
    EXPECT_LT(distance(values_of(y), values_of(cast(reference_values(GetParam(), x), DType::f32))),
              1e-6);
  }
}

TEST_P(VectorActivation, LetsNotANumberThrough) {
  for (const int count : {1, 21}) {
    const Tensor x = vector_of(std::vector<float>(static_cast<std::size_t>(count), nan));
    const Tensor y = table().activate({}, GetParam(), x);
    for (const float value : y.elements<float>()) EXPECT_TRUE(std::isnan(value));
    const Tensor dx = table().activate_backward({}, ActivationFunction::gelu, x, x);
    for (const float value : dx.elements<float>()) EXPECT_TRUE(std::isnan(value));
  }
}

TEST_P(VectorActivation, HasItsLimitsFarFromZero) {
  const std::vector<float> far{-3e38f, -1e30f, -1000.0f, -200.0f, 200.0f, 1000.0f, 1e30f, 3e38f};
  const std::vector<float> y = values_of(table().activate({}, GetParam(), vector_of(far)));
  const bool bounded = GetParam() == ActivationFunction::sigmoid ||
                       GetParam() == ActivationFunction::tanh ||
                       GetParam() == ActivationFunction::hardsigmoid;
  for (std::size_t i = 0; i < far.size(); ++i) {
    const float left = GetParam() == ActivationFunction::tanh ? -1.0f : 0.0f;
    EXPECT_EQ(y[i], far[i] < 0 ? left : bounded ? 1.0f : far[i]) << far[i];
  }
}

TEST(VectorActivationValues, EmptyTensorsGiveEmptyTensors) {
  const Tensor empty = Tensor::empty({0, 3}, DType::f32, Device::cpu());
  EXPECT_EQ(table().activate({}, ActivationFunction::gelu, empty).element_count(), 0);
  EXPECT_EQ(table().affine({}, empty, 2, 1).element_count(), 0);
  EXPECT_EQ(table().clamp_backward({}, empty, empty, 0, 6).element_count(), 0);
}

// As F.hardswish, F.hardsigmoid and F.hardtanh of PyTorch 2.15 have them.
TEST(VectorActivationValues, GradientsAtEdgesAreThoseOfTheOuterPieces) {
  const Tensor edges = vector_of({-3, 3}), ones = vector_of({1, 1});
  const auto gradients = [&](ActivationFunction function) {
    return values_of(table().activate_backward({}, function, edges, ones));
  };
  EXPECT_EQ(gradients(ActivationFunction::hardswish), (std::vector<float>{0, 1}));
  EXPECT_EQ(gradients(ActivationFunction::hardsigmoid), (std::vector<float>{0, 0}));
  EXPECT_EQ(values_of(table().clamp_backward({}, edges, ones, -3, 3)), (std::vector<float>{0, 0}));
}

TEST(VectorActivationValues, ClampBackwardPassesTheGradientBetweenTheBounds) {
  for (const Case& c : images_and_rows()) {
    const Tensor x = random_tensor(c, 1), grad = random_tensor(c, 2);
    const Tensor dx = on_any_threads(
        [&](const Stream& s) { return table().clamp_backward(s, x, grad, -0.5, infinity); });
    for (std::int64_t i = 0; i < x.element_count(); ++i)
      ASSERT_EQ(dx.data<float>()[i], x.data<float>()[i] > -0.5f ? grad.data<float>()[i] : 0.0f);
  }
}

TEST(VectorActivationValues, AffineIsExactToOneRounding) {
  for (const Case& c : images_and_rows()) {
    const Tensor x = random_tensor(c, 1);
    const Tensor y =
        on_any_threads([&](const Stream& s) { return table().affine(s, x, 0.25, 0.5); });
    EXPECT_EQ(y.layout(), x.layout());
    for (std::int64_t i = 0; i < x.element_count(); ++i)
      ASSERT_EQ(y.data<float>()[i], x.data<float>()[i] * 0.25f + 0.5f);
  }
}

TEST(VectorActivationErrors, NameBothTensorsThatDoNotFit) {
  const Tensor a = Tensor::zeros({2, 3}), b = Tensor::zeros({3, 2});
  EXPECT_THROW(table().activate_backward({}, ActivationFunction::gelu, a, b), Error);
  EXPECT_THROW(table().clamp_backward({}, a, b, 0, 1), Error);
}

}  // namespace
}  // namespace troupe
