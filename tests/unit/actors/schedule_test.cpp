#include "actors/schedule.h"

#include <gmock/gmock.h>

#include "runtime/error.h"
#include "static_order.h"

namespace troupe {
namespace {

using Kind = ScheduleKind;
using testing::static_order;

std::vector<ScheduledStep> order_of(const std::vector<TimedStep>& steps, std::size_t stage) {
  std::vector<ScheduledStep> order;
  for (const TimedStep& step : steps)
    if (step.stage == stage) order.push_back(step.step);
  return order;
}

class EverySchedule : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule,
                         ::testing::Values(Kind::gpipe, Kind::one_forward_one_backward,
                                           Kind::eager_one_forward_one_backward));

TEST_P(EverySchedule, EmergesFromCreditsAndPrioritiesForUpToEightStagesAndMicroBatches) {
  for (std::size_t stages = 1; stages <= 8; ++stages)
    for (std::size_t micro_batches = 1; micro_batches <= 8; ++micro_batches) {
      const std::vector<double> forward(stages, 1.0), backward(stages, 2.0);
      const auto steps = simulate(GetParam(), micro_batches, forward, backward);
      for (std::size_t s = 0; s < stages; ++s)
        EXPECT_EQ(order_of(steps, s), static_order(GetParam(), s, stages, micro_batches))
            << "stage " << s << " of " << stages << ", " << micro_batches << " micro-batches";
    }
}

TEST_P(EverySchedule, HasTheBubbleOfTheory) {
  // b = (p - 1)(T_F + T_B) beside m (T_F + T_B) of work.
  for (std::size_t stages = 1; stages <= 8; stages *= 2)
    for (std::size_t micro_batches : {8u, 16u, 32u}) {
      const auto steps = simulate(GetParam(), micro_batches, std::vector<double>(stages, 1.0),
                                  std::vector<double>(stages, 2.0));
      double end = 0;
      for (const TimedStep& step : steps) end = std::max(end, step.end);
      EXPECT_DOUBLE_EQ(end, 3.0 * static_cast<double>(micro_batches + stages - 1));
    }
}

TEST_P(EverySchedule, HoldsAtMostItsCreditsBetweenForwardAndBackward) {
  for (std::size_t stages = 1; stages <= 6; ++stages) {
    const auto steps =
        simulate(GetParam(), 8, std::vector<double>(stages, 1.0), std::vector<double>(stages, 2.0));
    for (std::size_t s = 0; s < stages; ++s) {
      std::uint32_t held = 0, most = 0;
      for (const auto& step : order_of(steps, s)) {
        step.action == StageAction::forward ? ++held : --held;
        most = std::max(most, held);
      }
      EXPECT_EQ(most, stage_schedule(GetParam(), s, stages, 8).credits);
    }
  }
}

// 1F1B's first stage may not go on while the gradient that it waits for is late; the eager one has
// a forward left for that time, so that it is always at work where it is the slower one.
TEST(Eager1F1B, HidesTheBubbleOfAFirstStageThatTakesLonger) {
  const std::vector<double> forward{1.8, 1.5}, backward{2.7, 2.5};
  const auto end = [&](Kind kind) {
    double last = 0;
    for (const TimedStep& step : simulate(kind, 8, forward, backward))
      last = std::max(last, step.end);
    return last;
  };
  EXPECT_NEAR(end(Kind::eager_one_forward_one_backward), 1.8 + 8 * 4.0 + 2.7, 1e-9);
  EXPECT_GT(end(Kind::one_forward_one_backward), 39.0);
}

TEST(NextAction, FillsItsCreditsBeforeItGoesBackwardIn1F1B) {
  const StageSchedule schedule = stage_schedule(ScheduleKind::one_forward_one_backward, 0, 3, 8);
  EXPECT_EQ(next_action({.can_backward = true, .can_forward = true, .in_flight = 2}, schedule),
            StageAction::forward);
  EXPECT_EQ(next_action({.can_backward = true, .can_forward = true, .in_flight = 3}, schedule),
            StageAction::backward);
  // It does not wait for a forward that is not there.
  EXPECT_EQ(next_action({.can_backward = true, .in_flight = 2}, schedule), StageAction::backward);
}

TEST(NextAction, GoesNoFurtherForwardThanItsCredits) {
  const StageSchedule schedule{.credits = 2, .flush_before_backward = false};
  EXPECT_EQ(next_action({.can_forward = true, .in_flight = 1}, schedule), StageAction::forward);
  EXPECT_EQ(next_action({.can_forward = true, .in_flight = 2}, schedule), std::nullopt);
}

TEST(NextAction, WaitsForAllForwardsInGPipe) {
  const StageSchedule schedule{.credits = 4, .flush_before_backward = true};
  EXPECT_EQ(next_action({.can_backward = true, .in_flight = 3}, schedule), std::nullopt);
  EXPECT_EQ(next_action({.can_backward = true, .all_forwarded = true, .in_flight = 4}, schedule),
            StageAction::backward);
}

TEST(NextAction, UpdatesBeforeAnythingElse) {
  EXPECT_EQ(next_action({.can_update = true, .can_backward = true, .can_forward = true}, {}),
            StageAction::update);
}

TEST(ScheduleKind, NamesWhatItKnowsInItsError) {
  try {
    schedule_kind("1f2b");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("1f2b"));
    EXPECT_THAT(error.what(), ::testing::HasSubstr("gpipe, 1f1b, eager_1f1b"));
  }
}

TEST(DrawnSchedule, ShowsEachStageOnALine) {
  const auto steps = simulate(Kind::one_forward_one_backward, 2, {1, 1}, {1, 1});
  EXPECT_EQ(draw(steps, 45),
            "stage 0  F0----F1----......B0====......B1====\n"
            "stage 1  ......F0----B0====F1----B1====......\n");
}

}  // namespace
}  // namespace troupe
