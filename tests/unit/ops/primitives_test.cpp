// What every primitive promises, asked of all that samples.cpp lists.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "ops/primitives/arithmetic.h"
#include "ops/primitives/batch_norm2d.h"
#include "ops/primitives/convolution2d.h"
#include "ops/primitives/elementwise.h"
#include "samples.h"

namespace troupe::testing_ops {
namespace {

class EveryPrimitive : public testing::TestWithParam<Sample> {};
INSTANTIATE_TEST_SUITE_P(Samples, EveryPrimitive, testing::ValuesIn(all_samples()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::ranges::replace(name, '/', '_');
                           return name;
                         });

// The largest difference between `gradient` and central differences of the objective.
double gradient_error(const Sample& sample, const Numbers& numbers, Tensor& varied,
                      const Tensor& gradient) {
  constexpr double step = 1e-5;
  Tensor expected = Tensor::empty(varied.shape(), DType::f64, Device::cpu());
  for (std::int64_t e = 0; e < varied.element_count(); ++e) {
    double& value = varied.data<double>()[e];
    const double kept = value;
    value = kept + step;
    const double above = objective(sample, numbers);
    value = kept - step;
    const double below = objective(sample, numbers);
    value = kept;
    expected.data<double>()[e] = (above - below) / (2 * step);
  }
  return distance(gradient, expected);
}

TEST_P(EveryPrimitive, HasTheGradientsThatFiniteDifferencesGive) {
  const Sample& sample = GetParam();
  Numbers values = numbers(sample);
  const Outcome outcome = run(sample, values);
  ASSERT_EQ(outcome.input_gradients.size(), sample.inputs.size());
  for (std::size_t i = 0; i < values.inputs.size(); ++i)
    EXPECT_LT(gradient_error(sample, values, values.inputs[i], outcome.input_gradients[i]), 1e-6)
        << sample.name << ", input " << i;
  for (std::size_t i = 0; i < values.weights.size(); ++i)
    EXPECT_LT(gradient_error(sample, values, values.weights[i], outcome.weight_gradients[i]), 1e-6)
        << sample.name << ", weight " << i;
}

TEST_P(EveryPrimitive, GivesTheSameWhenItsHalvesRunApart) {
  const Sample& sample = GetParam();
  const Numbers values = numbers(sample);
  const Outcome together = run(sample, values);
  const Outcome apart = run(sample, values, {.apart = true});
  for (std::size_t i = 0; i < values.inputs.size(); ++i)
    EXPECT_EQ(distance(apart.input_gradients[i], together.input_gradients[i]), 0) << sample.name;
  for (std::size_t i = 0; i < values.weights.size(); ++i)
    EXPECT_EQ(distance(apart.weight_gradients[i], together.weight_gradients[i]), 0) << sample.name;
}

TEST_P(EveryPrimitive, KeepsNothingInEvaluation) {
  const Sample& sample = GetParam();
  EXPECT_EQ(run(sample, numbers(sample), {.training = false}).saved_bytes, 0u) << sample.name;
}

TEST_P(EveryPrimitive, GivesTheSameInEveryLayout) {
  const Sample& sample = GetParam();
  if (sample.inputs[0].rank() != 4) return;
  const Numbers values = numbers(sample);
  const Outcome rows = run(sample, values);
  std::vector<Layout> others = {Layout::nhwc};
  if (sample.inputs[0][1] % 16 == 0) others.push_back(Layout::nchw16c);
  for (Layout layout : others) {
    const Outcome other = run(sample, values, {.layout = layout});
    EXPECT_LT(distance(other.output, rows.output), 1e-13) << sample.name;
    for (std::size_t i = 0; i < rows.input_gradients.size(); ++i)
      EXPECT_LT(distance(other.input_gradients[i], rows.input_gradients[i]), 1e-13)
          << sample.name << " in " << name_of(layout);
    for (std::size_t i = 0; i < rows.weight_gradients.size(); ++i)
      EXPECT_LT(distance(other.weight_gradients[i], rows.weight_gradients[i]), 1e-13)
          << sample.name << " in " << name_of(layout);
  }
}

TEST_P(EveryPrimitive, AgreesInSinglePrecision) {
  const Sample& sample = GetParam();
  const Numbers values = numbers(sample);
  const Outcome expected = run(sample, values);
  const Outcome single = run(sample, values, {.dtype = DType::f32});
  EXPECT_LT(distance(single.output, expected.output), 2e-6) << sample.name;
  for (std::size_t i = 0; i < expected.input_gradients.size(); ++i)
    EXPECT_LT(distance(single.input_gradients[i], expected.input_gradients[i]), 1e-5)
        << sample.name;
  for (std::size_t i = 0; i < expected.weight_gradients.size(); ++i)
    EXPECT_LT(distance(single.weight_gradients[i], expected.weight_gradients[i]), 1e-5)
        << sample.name;
  for (std::size_t i = 0; i < expected.statistics.size(); ++i)
    EXPECT_LT(distance(single.statistics[i], expected.statistics[i]), 1e-6) << sample.name;
}

// Rank 4, in blocks of sixteen channels: a residual block in all that can be recorded.
Sample residual_block() {
  const Shape x{2, 16, 4, 5};
  Sample sample{.name = "tape/residual_block",
                .inputs = {x},
                .weights = {{16, 16, 3, 3}, {16}, {16}},
                .buffers = {{16}, {16}},
                .record = {}};
  sample.record = [](Tape& tape, std::span<const Value> in, OwnedKernels& owned) {
    ConvolutionOptions o{.in_channels = 16, .out_channels = 16, .padding_h = 1, .padding_w = 1};
    o.bias = false;
    owned.kernels.push_back(tape.pass().kernels().convolution(o));
    const Value inner =
        tape.record(primitives::Convolution2d{{owned.kernels.back().get(), {0}, {}}, o}, in[0]);
    primitives::BatchNorm2d norm{.weight = {1}, .bias = {2}, .relu = true};
    norm.running_mean = {0};
    norm.running_variance = {1};
    const Value block = tape.record(norm, inner, in[0]);
    const Value activated = tape.record(primitives::Relu{}, block);
    const Value doubled =
        tape.record(primitives::Arithmetic{ArithmeticOperation::add}, activated, activated);
    return tape.record(primitives::Arithmetic{ArithmeticOperation::add}, doubled, block);
  };
  return sample;
}

TEST(TapeFanOut, SumsTheGradientsOfAValueUsedSeveralTimes) {
  const Sample sample = residual_block();
  Numbers values = numbers(sample);
  const Outcome outcome = run(sample, values);
  EXPECT_LT(gradient_error(sample, values, values.inputs[0], outcome.input_gradients[0]), 1e-6);
  for (std::size_t i = 1; i < values.weights.size(); ++i)
    EXPECT_LT(gradient_error(sample, values, values.weights[i], outcome.weight_gradients[i]), 1e-6);
}

TEST(TapeFanOut, GivesTheSameInEveryLayoutAndInHalves) {
  const Sample sample = residual_block();
  const Numbers values = numbers(sample);
  const Outcome expected = run(sample, values);
  for (const Layout layout : {Layout::row_major, Layout::nhwc, Layout::nchw16c})
    for (const bool apart : {false, true}) {
      const Outcome other = run(sample, values, {.layout = layout, .apart = apart});
      EXPECT_LT(distance(other.output, expected.output), 1e-12);
      EXPECT_LT(distance(other.input_gradients[0], expected.input_gradients[0]), 1e-12);
      EXPECT_LT(distance(other.weight_gradients[0], expected.weight_gradients[0]), 1e-12);
    }
}

}  // namespace
}  // namespace troupe::testing_ops
