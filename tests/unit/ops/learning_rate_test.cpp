#include "ops/optim/learning_rate.h"

#include <gtest/gtest.h>

#include "runtime/error.h"

namespace troupe {
namespace {

TEST(LearningRate, StaysConstant) {
  EXPECT_EQ(learning_rate({.lr = 0.3}, 0), 0.3);
  EXPECT_EQ(learning_rate({.lr = 0.3}, 1000), 0.3);
}

TEST(LearningRate, DropsEverySoManyEpochs) {
  const LearningRateOptions options{.schedule = LearningRateSchedule::step,
                                    .lr = 1.0,
                                    .steps_per_epoch = 5,
                                    .step_epochs = 2,
                                    .step_factor = 0.5};
  EXPECT_EQ(learning_rate(options, 9), 1.0);
  EXPECT_EQ(learning_rate(options, 10), 0.5);
  EXPECT_EQ(learning_rate(options, 25), 0.25);
}

TEST(LearningRate, FallsByAPowerOfTheShareOfStepsThatIsLeft) {
  LearningRateOptions options{
      .schedule = LearningRateSchedule::polynomial, .lr = 8.0, .total_steps = 4};
  for (const std::int64_t step : {0, 1, 2, 3, 4})
    EXPECT_EQ(learning_rate(options, step), 8.0 - 2.0 * static_cast<double>(step)) << "linear";
  options.power = 3;
  EXPECT_EQ(learning_rate(options, 2), 1.0);
  options.warmup_steps = 2;
  options.total_steps = 6;
  EXPECT_EQ(learning_rate(options, 4), 1.0);
}

TEST(LearningRate, WarmsUpInEqualStepsInFrontOfTheSchedule) {
  const LearningRateOptions options{.lr = 1.0, .warmup_steps = 4};
  EXPECT_DOUBLE_EQ(learning_rate(options, 0), 0.2);
  EXPECT_DOUBLE_EQ(learning_rate(options, 3), 0.8);
  EXPECT_DOUBLE_EQ(learning_rate(options, 4), 1.0);

  const LearningRateOptions cosine{
      .schedule = LearningRateSchedule::cosine, .lr = 1.0, .total_steps = 24, .warmup_steps = 4};
  const LearningRateOptions alone{
      .schedule = LearningRateSchedule::cosine, .lr = 1.0, .total_steps = 20};
  EXPECT_EQ(learning_rate(cosine, 11), learning_rate(alone, 7));
}

TEST(LearningRate, KeepsTheLastRateBeyondTheEnd) {
  LearningRateOptions options{
      .schedule = LearningRateSchedule::one_cycle, .lr = 1.0, .total_steps = 10};
  EXPECT_EQ(learning_rate(options, 10), learning_rate(options, 9));
  for (const auto schedule : {LearningRateSchedule::cosine, LearningRateSchedule::polynomial}) {
    options.schedule = schedule;
    EXPECT_EQ(learning_rate(options, 10), 0.0);
    EXPECT_EQ(learning_rate(options, 99), 0.0);
  }
}

TEST(LearningRate, IsFiniteForTheShortestRuns) {
  for (std::int64_t total = 1; total < 8; ++total)
    for (const auto schedule : {LearningRateSchedule::cosine, LearningRateSchedule::polynomial,
                                LearningRateSchedule::one_cycle})
      for (std::int64_t step = 0; step < total; ++step) {
        const double rate =
            learning_rate({.schedule = schedule, .lr = 1.0, .total_steps = total}, step);
        EXPECT_GE(rate, 0.0) << "step " << step << " of " << total;
        EXPECT_LE(rate, 1.0) << "step " << step << " of " << total;
      }
}

TEST(LearningRate, RefusesNumbersThatGiveNone) {
  EXPECT_THROW(learning_rate({.lr = -1.0}, 0), Error);
  EXPECT_THROW(learning_rate({.schedule = LearningRateSchedule::cosine}, 0), Error);
  EXPECT_THROW(learning_rate({.schedule = LearningRateSchedule::step}, 0), Error);
  EXPECT_THROW(learning_rate({.schedule = LearningRateSchedule::polynomial}, 0), Error);
  EXPECT_THROW(
      check({.schedule = LearningRateSchedule::polynomial, .total_steps = 5, .power = 0.0}), Error);
  EXPECT_THROW(
      check({.schedule = LearningRateSchedule::one_cycle, .total_steps = 5, .warmup_steps = 5}),
      Error);
}

TEST(LearningRate, SaysWhichNumberAProgramHasNotSet) {
  const auto remedy_of = [](const LearningRateOptions& options) {
    try {
      check(options);
    } catch (const Error& error) {
      return error.remedy();
    }
    return std::string();
  };
  EXPECT_EQ(remedy_of({.schedule = LearningRateSchedule::one_cycle}),
            "set LearningRateOptions::total_steps, as Timeline::steps");
  EXPECT_EQ(
      remedy_of({.schedule = LearningRateSchedule::cosine, .total_steps = 5, .warmup_steps = 5}),
      "train for more steps, or warm up for fewer");
}

}  // namespace
}  // namespace troupe
