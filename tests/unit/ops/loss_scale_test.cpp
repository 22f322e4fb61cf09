#include "ops/optim/loss_scale.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/error.h"
#include "runtime/flow/wire.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The scale of each step, and of the step after the last one. "f" is a finite step, "o" an
/// overflow.
std::vector<double> scales(const LossScaleOptions& options, std::string_view steps) {
  LossScale now = loss_scale_after(options, std::nullopt);
  std::vector<double> result{now.scale};
  for (const char step : steps) {
    now = next_loss_scale(options, now, step == 'f');
    result.push_back(now.scale);
  }
  return result;
}

LossScaleOptions dynamic(double init_scale) {
  return {.mode = LossScaling::dynamic, .init_scale = init_scale, .growth_interval = 3};
}

TEST(LossScale, GrowsAfterFiniteStepsInARowAndFallsAfterEachOverflow) {
  // As torch.amp.GradScaler(init_scale=16, growth_interval=3) of PyTorch 2.15.
  EXPECT_THAT(scales(dynamic(16), "fffofffoofffffofff"),
              ElementsAre(16, 16, 16, 32, 16, 16, 16, 32, 16, 8, 8, 8, 16, 16, 16, 8, 8, 8, 16));
}

TEST(LossScale, ChangesByItsFactors) {
  LossScaleOptions options = dynamic(256);
  options.growth_factor = 8;
  options.backoff_factor = 0.25;
  options.growth_interval = 1;
  EXPECT_THAT(scales(options, "ofoof"), ElementsAre(256, 64, 512, 128, 32, 256));
}

TEST(LossScale, FallsWithHysteresisOnlyWhenOverflowsAreMany) {
  // As DeepSpeed's DynamicLossScaler: overflows need not be in a row, and growth forgets them.
  LossScaleOptions options = dynamic(16);
  options.hysteresis = 2;
  EXPECT_THAT(scales(options, "ofoofffof"), ElementsAre(16, 16, 16, 8, 4, 4, 4, 8, 8, 8));
}

TEST(LossScale, StaysWithinItsLimits) {
  LossScaleOptions options = dynamic(4);
  options.min_scale = 2;
  EXPECT_THAT(scales(options, "ooo"), ElementsAre(4, 2, 2, 2));
  options = dynamic(0x1p125);
  options.growth_interval = 1;
  EXPECT_THAT(scales(options, "fff"), ElementsAre(0x1p125, 0x1p126, 0x1p126, 0x1p126));
}

TEST(LossScale, CannotRecoverWhereNoOverflowLowersIt) {
  LossScaleOptions options = dynamic(4);
  options.min_scale = 2;
  EXPECT_FALSE(cannot_recover(options, {.scale = 4}));
  EXPECT_TRUE(cannot_recover(options, {.scale = 2}));
  options.hysteresis = 2;
  EXPECT_FALSE(cannot_recover(options, {.scale = 2}));
  EXPECT_TRUE(cannot_recover(options, {.scale = 2, .overflows = 1}));
  options.mode = LossScaling::fixed;
  EXPECT_FALSE(cannot_recover(options, {.scale = 2, .overflows = 9}));
  EXPECT_TRUE(cannot_recover(options, {.scale = 2, .overflows = most_overflows_in_a_row - 1}));
}

TEST(LossScale, StaysIfItIsFixed) {
  LossScaleOptions options = dynamic(128);
  options.mode = LossScaling::fixed;
  EXPECT_THAT(scales(options, "ffffo"), ElementsAre(128, 128, 128, 128, 128, 128));
  EXPECT_EQ(loss_scale_after(options, LossScale{.scale = 2}).scale, 128);
}

TEST(LossScale, CountsTheOverflowsInARowOfAFixedScale) {
  LossScaleOptions options = dynamic(128);
  options.mode = LossScaling::fixed;
  LossScale now = loss_scale_after(options, std::nullopt);
  for (const bool finite : {false, true, false, false}) now = next_loss_scale(options, now, finite);
  EXPECT_EQ(now, (LossScale{.scale = 128, .overflows = 2}));
  EXPECT_EQ(loss_scale_after(options, now), now) << "a resumed run continues the count";
  options.init_scale = 64;
  EXPECT_EQ(loss_scale_after(options, now), (LossScale{.scale = 64})) << "with another, from 0";
}

TEST(LossScale, ContinuesFromACommittedOne) {
  const LossScale committed{.scale = 64, .finite_steps = 2, .overflows = 1};
  EXPECT_EQ(loss_scale_after(dynamic(16), committed), committed);
  LossScaleOptions raised = dynamic(1024);
  raised.min_scale = 256;
  EXPECT_EQ(loss_scale_after(raised, committed).scale, 256) << "the limit is new";
}

std::string refusal(const LossScaleOptions& options) {
  try {
    check(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    return error.what();
  }
  return "none";
}

TEST(LossScaleOptions, RefuseWhatIsNoPowerOfTwoOrOutOfRange) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double scale :
       {0.0, -1.0, -2.0, std::nan(""), infinity, 3.0, 1e300, 0x1p127, 0x1p-127, 65535.0}) {
    LossScaleOptions options;
    options.init_scale = scale;
    EXPECT_THAT(refusal(options), HasSubstr("`init_scale` is")) << scale;
    options = {.min_scale = scale};
    EXPECT_THAT(refusal(options), HasSubstr("`min_scale` is")) << scale;
    EXPECT_FALSE(is_loss_scale(scale)) << scale;
  }
  for (const double factor : {0.0, -2.0, 0.5, 1.0, 1.5, 3.0, std::nan(""), infinity, 1e300})
    EXPECT_THAT(refusal({.growth_factor = factor}), HasSubstr("`growth_factor` is")) << factor;
  for (const double factor : {0.0, -0.5, 0.3, 1.0, 2.0, std::nan(""), 1e-300})
    EXPECT_THAT(refusal({.backoff_factor = factor}), HasSubstr("`backoff_factor` is")) << factor;
  for (const std::int64_t count : {0, -1}) {
    EXPECT_THAT(refusal({.growth_interval = count}), HasSubstr("`growth_interval` is"));
    EXPECT_THAT(refusal({.hysteresis = count}), HasSubstr("`hysteresis` is"));
  }
  EXPECT_EQ(refusal({}), "none");
  EXPECT_EQ(refusal({.init_scale = 0x1p126, .min_scale = 0x1p-126}), "none");
}

TEST(LossScaleOptions, SayWhatIsNearest) {
  EXPECT_THAT(refusal({.init_scale = 3}), HasSubstr("such as 2 or 4"));
  EXPECT_THAT(refusal({.init_scale = 50000}), HasSubstr("such as 32768 or 65536"));
  EXPECT_THAT(refusal({.backoff_factor = 0.3}), HasSubstr("such as 0.25 or 0.5"));
  EXPECT_THAT(refusal({.init_scale = 2, .min_scale = 4}),
              HasSubstr("`min_scale` is 4, more than `init_scale`, 2"));
}

/// The numbers of its remedy.
std::vector<double> offered_by(const std::string& refusal) {
  const std::string_view remedy = "give a power of two";
  const auto begin = refusal.find(remedy);
  if (begin == refusal.npos) return {};
  std::vector<double> numbers;
  std::istringstream words(refusal.substr(begin + remedy.size()));
  for (std::string word; words >> word;)
    if (const double number = std::strtod(word.c_str(), nullptr); number != 0)
      numbers.push_back(number);
  return numbers;
}

TEST(LossScaleOptions, TakeTheNumbersThatTheirRefusalsName) {
  const auto take = [](const std::string& refused, auto&& options_with) {
    const std::vector<double> offered = offered_by(refused);
    EXPECT_EQ(offered.size(), 2u) << refused;
    for (const double value : offered) EXPECT_EQ(refusal(options_with(value)), "none") << refused;
  };
  const auto scales = [](double init, double min) {
    return LossScaleOptions{.init_scale = init, .min_scale = min};
  };
  for (const double scale : {3.0, 0.3, 65535.0, 1e30, 1e-30, 1e300, 1e-300, 0x1p127, 0x1p-127}) {
    take(refusal({.init_scale = scale}), [&](double value) { return scales(value, 0x1p-126); });
    take(refusal({.min_scale = scale}), [&](double value) { return scales(0x1p126, value); });
  }
  for (const double factor : {0.5, 1.5, 3.0, 1e30, 1e300})
    take(refusal({.growth_factor = factor}),
         [](double value) { return LossScaleOptions{.growth_factor = value}; });
  for (const double factor : {0.3, 0.7, 1e-30, 1e-300, 2.0})
    take(refusal({.backoff_factor = factor}),
         [](double value) { return LossScaleOptions{.backoff_factor = value}; });
}

TEST(LossScale, TravelsBetweenProcesses) {
  const LossScale sent{.scale = 0x1p-20, .finite_steps = 1999, .overflows = 3};
  WireWriter writer;
  writer(sent);
  LossScale received;
  WireReader(writer.bytes)(received);
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace troupe
