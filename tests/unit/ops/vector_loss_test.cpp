#include <cmath>
#include <limits>

#include "ops/loss.h"
#include "runtime/error.h"
#include "runtime/tensor/cast.h"
#include "tests/unit/ops/vector_support.h"

namespace troupe {
namespace {

using namespace test;

Tensor targets_of(const std::vector<std::int64_t>& values) {
  return Tensor::from<std::int64_t>({static_cast<std::int64_t>(values.size())}, values);
}

class VectorLoss : public testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {};
INSTANTIATE_TEST_SUITE_P(Sizes, VectorLoss,
                         testing::Values(std::pair{1, 1}, std::pair{5, 3}, std::pair{64, 10},
                                         std::pair{33, 17}, std::pair{300, 1000}));

TEST_P(VectorLoss, AgreesWithTheFormula) {
  const auto [samples, classes] = GetParam();
  const Tensor logits = random_tensor({Layout::row_major, {samples, classes}}, 1, 50.0f);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < samples; ++i) labels.push_back(i * 7 % classes);
  double loss = 0;
  std::int64_t correct = 0;
  std::vector<double> gradient;
  for (std::int64_t i = 0; i < samples; ++i) {
    const float* row = logits.data<float>() + i * classes;
    const float* best = std::max_element(row, row + classes);
    double sum = 0;
    for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(double{row[k]} - *best);
    const std::int64_t label = labels[static_cast<std::size_t>(i)];
    loss += std::log(sum) + *best - row[label];
    correct += best - row == label;
    for (std::int64_t k = 0; k < classes; ++k)
      gradient.push_back((std::exp(double{row[k]} - *best) / sum - (k == label)) * 0.25);
  }
  const auto run = [&](const Stream& stream, bool with_gradient) {
    return table().softmax_cross_entropy(stream, logits, targets_of(labels), 0.25, with_gradient, 0,
                                         {});
  };
  const LossOutput output = run({}, true);
  const LossTotals totals = read_totals({}, output);
  EXPECT_NEAR(totals.loss_sum, loss, 1e-6 * (1 + loss));
  EXPECT_EQ(totals.correct, correct);
  EXPECT_LT(distance(values_of(output.logits_grad), gradient), 1e-6);
  expect_same_bits(on_any_threads([&](const Stream& s) { return run(s, true).logits_grad; }),
                   output.logits_grad);
  for (int threads : {1, 2, 3}) {
    EXPECT_EQ(read_totals({}, run({.threads = threads}, false)).loss_sum, totals.loss_sum);
    EXPECT_FALSE(run({.threads = threads}, false).logits_grad.defined());
  }
}

TEST_P(VectorLoss, OfSmoothedLabelsAgreesWithTheFormula) {
  const auto [samples, classes] = GetParam();
  constexpr double smoothing = 0.2;
  const Tensor logits = random_tensor({Layout::row_major, {samples, classes}}, 1, 50.0f);
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < samples; ++i) labels.push_back(i * 7 % classes);
  double loss = 0;
  std::vector<double> gradient;
  for (std::int64_t i = 0; i < samples; ++i) {
    const float* row = logits.data<float>() + i * classes;
    double sum = 0;
    for (std::int64_t k = 0; k < classes; ++k) sum += std::exp(double{row[k]});
    for (std::int64_t k = 0; k < classes; ++k) {
      const double target = smoothing / static_cast<double>(classes) +
                            (k == labels[static_cast<std::size_t>(i)] ? 1 - smoothing : 0);
      loss += target * (std::log(sum) - row[k]);
      gradient.push_back((std::exp(double{row[k]}) / sum - target) * 0.25);
    }
  }
  const auto run = [&](const Stream& stream, bool with_gradient) {
    return table().softmax_cross_entropy(stream, logits, targets_of(labels), 0.25, with_gradient,
                                         smoothing, {});
  };
  const LossOutput output = run({}, true);
  EXPECT_NEAR(read_totals({}, output).loss_sum, loss, 1e-6 * (1 + loss));
  EXPECT_LT(distance(values_of(output.logits_grad), gradient), 1e-6);
  expect_same_bits(on_any_threads([&](const Stream& s) { return run(s, true).logits_grad; }),
                   output.logits_grad);
  EXPECT_EQ(read_totals({}, run({}, false)).loss_sum, read_totals({}, output).loss_sum);
}

TEST(VectorLossValues, TheFirstOfEqualLogitsIsThePrediction) {
  const Tensor logits = Tensor::zeros({2, 4});
  const LossOutput output =
      table().softmax_cross_entropy({}, logits, targets_of({0, 3}), 1, false, 0, {});
  EXPECT_EQ(read_totals({}, output).correct, 1);
}

TEST(VectorLossValues, HugeLogitsDoNotOverflow) {
  const Tensor logits = tensor_of({1, 2}, Layout::row_major, {3e38f, -3e38f});
  const LossOutput right =
      table().softmax_cross_entropy({}, logits, targets_of({0}), 1, true, 0, {});
  EXPECT_EQ(read_totals({}, right).loss_sum, 0.0);
  const LossOutput wrong =
      table().softmax_cross_entropy({}, logits, targets_of({1}), 1, true, 0, {});
  EXPECT_NEAR(read_totals({}, wrong).loss_sum, 6e38, 1e32);
  EXPECT_EQ(values_of(wrong.logits_grad), (std::vector<float>{1, -1}));
}

TEST(VectorLossValues, NotANumberShowsInTheLoss) {
  const Tensor logits =
      tensor_of({1, 3}, Layout::row_major, {0, std::numeric_limits<float>::quiet_NaN(), 1});
  for (const DType dtype : {DType::f32, DType::f64}) {
    const LossTotals totals = read_totals(
        {}, kernels(Device::cpu(), dtype)
                .softmax_cross_entropy({}, cast(logits, dtype), targets_of({0}), 1, false, 0, {}));
    EXPECT_TRUE(std::isnan(totals.loss_sum));
    EXPECT_EQ(totals.correct, 0);
  }
}

TEST(VectorLossErrors, NamesTheTargetOutsideTheClasses) {
  const Tensor logits = Tensor::zeros({3, 10});
  try {
    table().softmax_cross_entropy({}, logits, targets_of({1, 10, 2}), 1, true, 0, {});
    FAIL() << "class 10 of 10";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("target 10 of sample 1"), std::string::npos) << error.message();
  }
  EXPECT_THROW(table().softmax_cross_entropy({}, logits, targets_of({1, -1, 2}), 1, true, 0, {}),
               Error);
  EXPECT_THROW(table().softmax_cross_entropy({}, logits, targets_of({1, 1}), 1, true, 0, {}),
               Error);
  EXPECT_THROW(table().softmax_cross_entropy({}, logits, Tensor::zeros({3}), 1, true, 0, {}),
               Error);
}

}  // namespace
}  // namespace troupe
