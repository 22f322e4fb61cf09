#include <limits>

#include "ops/reference/kernels.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

/// Weights, exp_avg and exp_avg_sq, before or after an update.
struct Arrays {
  Tensor weights, exp_avg, exp_avg_sq;
  std::array<const Tensor*, 3> all() const { return {&weights, &exp_avg, &exp_avg_sq}; }
};

Arrays random_arrays(std::int64_t count) {
  Arrays arrays{vector_of(random_values(count, 1)), vector_of(random_values(count, 3)),
                vector_of(random_values(count, 4))};
  for (float& square : arrays.exp_avg_sq.elements<float>()) square *= square;
  return arrays;
}

Arrays updated(const Stream& stream, const AdamStep& factors, const Arrays& from,
               const Tensor& gradient) {
  const auto empty = [&] { return Tensor::empty(gradient.shape(), DType::f32, Device::cpu()); };
  Arrays to{empty(), empty(), empty()};
  table().adam_step(stream, {{factors, from.weights, gradient, from.exp_avg, from.exp_avg_sq,
                              to.weights, to.exp_avg, to.exp_avg_sq}});
  return to;
}

Arrays by_reference(const AdamStep& factors, const Arrays& from, const Tensor& gradient) {
  const auto wide = [](const Tensor& t) { return t.defined() ? cast(t, DType::f64) : Tensor(); };
  const auto empty = [&] { return Tensor::empty(gradient.shape(), DType::f64, Device::cpu()); };
  Arrays to{empty(), empty(), empty()};
  reference::adam_step({}, {{factors, wide(from.weights), wide(gradient), wide(from.exp_avg),
                             wide(from.exp_avg_sq), to.weights, to.exp_avg, to.exp_avg_sq}});
  return to;
}

struct AdamCase {
  AdamStep factors;
  bool first = false;
};
class VectorAdamStep : public testing::TestWithParam<AdamCase> {};
INSTANTIATE_TEST_SUITE_P(
    Factors, VectorAdamStep,
    testing::Values(
        AdamCase{{.lr = 0.1, .correction1 = 0.1, .correction2 = 0.001}, true},
        AdamCase{{.lr = 0.1, .correction1 = 0.3, .correction2 = 0.2}},
        AdamCase{{.lr = 0.1, .beta1 = 0.4, .beta2 = 0.5, .correction1 = 0.84}},
        AdamCase{{.lr = 0.1, .beta1 = 0, .beta2 = 0, .epsilon = 0}},
        AdamCase{{.lr = 0.1, .weight_decay = 0.5}},
        AdamCase{{.lr = 0.1, .weight_decay = 0.5, .scaling = {.limit = 0.25, .factor = -0.3}}},
        AdamCase{{.lr = 0.1, .weight_decay = 0.5, .decoupled_decay = true}}));

TEST_P(VectorAdamStep, AgreesWithTheReferenceForAnySize) {
  const auto [factors, first] = GetParam();
  for (const std::int64_t count : {1, 3, 17, 64, 30011}) {
    SCOPED_TRACE(count);
    Arrays from = random_arrays(count);
    if (first) from.exp_avg = from.exp_avg_sq = {};
    const Tensor gradient = vector_of(random_values(count, 2));
    const Arrays expected = by_reference(factors, from, gradient);
    for (std::size_t part = 0; part < 3; ++part) {
      const Tensor result = on_any_threads(
          [&](const Stream& s) { return *updated(s, factors, from, gradient).all()[part]; });
      const auto exact = expected.all()[part]->elements<double>();
      EXPECT_LT(distance(values_of(result), std::vector<double>(exact.begin(), exact.end())), 1e-6)
          << part;
    }
  }
}

TEST_P(VectorAdamStep, WritesTheSameBitsInPlace) {
  const auto [factors, first] = GetParam();
  if (first) return;
  Arrays arrays = random_arrays(1003);
  const Tensor gradient = vector_of(random_values(1003, 2));
  const Arrays apart = updated({}, factors, arrays, gradient);
  table().adam_step({}, {{factors, arrays.weights, gradient, arrays.exp_avg, arrays.exp_avg_sq,
                          arrays.weights, arrays.exp_avg, arrays.exp_avg_sq}});
  for (std::size_t part = 0; part < 3; ++part)
    expect_same_bits(*arrays.all()[part], *apart.all()[part]);
}

// What torch.optim.Adam gives for the same numbers.
TEST(VectorAdamStepValues, TreatsNumbersThatAreNotFiniteAsPyTorch) {
  const std::vector<float> gradients{infinity, -infinity, nan, 1e30f, 0};
  const Arrays from{vector_of({1, 1, 1, 1, infinity}), {}, {}};
  const AdamStep factors{.lr = 0.1, .correction1 = 0.1, .correction2 = 0.001};
  const Arrays to = updated({}, factors, from, vector_of(gradients));
  const std::vector<float> weights = values_of(to.weights), averages = values_of(to.exp_avg),
                           squares = values_of(to.exp_avg_sq);
  for (const std::size_t i : {0, 1, 2}) EXPECT_TRUE(std::isnan(weights[i])) << i;
  EXPECT_EQ(averages[0], infinity);
  EXPECT_EQ(averages[1], -infinity);
  EXPECT_TRUE(std::isnan(averages[2]));
  EXPECT_EQ(squares[3], infinity);  // of a gradient that is finite
  EXPECT_EQ(weights[3], 1.0f);
  EXPECT_EQ(weights[4], infinity);
}

TEST(VectorAdamStepValues, LimitsInfiniteGradientsAndKeepsNan) {
  const Arrays from{vector_of({1, 1, 1}), {}, {}};
  const AdamStep factors{.beta1 = 0, .scaling = {.limit = 3, .factor = 0.5}};
  const Arrays to = updated({}, factors, from, vector_of({infinity, -infinity, nan}));
  const std::vector<float> averages = values_of(to.exp_avg);
  EXPECT_EQ(averages[0], 1.5f);
  EXPECT_EQ(averages[1], -1.5f);
  EXPECT_TRUE(std::isnan(averages[2]));
}

TEST(VectorAdamStepValues, KeepsAWeightWithoutAGradientUnlessEpsilonIsZero) {
  const Arrays from{vector_of({1, 2, 3}), {}, {}};
  const Tensor none = vector_of({0, 0, 0});
  const AdamStep factors{.lr = 0.1, .correction1 = 0.1, .correction2 = 0.001};
  EXPECT_EQ(values_of(updated({}, factors, from, none).weights), (std::vector<float>{1, 2, 3}));
  AdamStep exact = factors;
  exact.epsilon = 0;  // 0 / 0, in PyTorch as well
  EXPECT_TRUE(std::isnan(values_of(updated({}, exact, from, none).weights)[0]));
}

TEST(VectorAdamStepErrors, NamesTheArrayThatDoesNotFit) {
  Tensor weights = vector_of({1, 2, 3}), average = vector_of({0, 0, 0}), square = vector_of({0, 0});
  try {
    table().adam_step({}, {{{}, weights, weights, average, square, weights, average, average}});
    FAIL() << "two values of exp_avg_sq for three weights";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("exp_avg_sq"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace troupe
