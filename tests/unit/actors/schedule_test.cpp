#include <gmock/gmock.h>

#include <map>

#include "actors/schedule_simulation.h"
#include "runtime/error.h"
#include "static_order.h"

namespace troupe {
namespace {

using Kind = ScheduleKind;
using testing::static_order;

std::vector<ScheduleAction> order_of(const std::vector<TimedAction>& actions, std::size_t stage) {
  std::vector<ScheduleAction> order;
  for (const TimedAction& action : actions)
    if (action.stage == stage) order.push_back(action.scheduled);
  return order;
}

// A forward, an input gradient and a weight gradient take equally long.
std::vector<StageTimes> equal_stages(std::size_t count) {
  return std::vector<StageTimes>(count, {1.0, 1.0, 1.0});
}

class WholeBackward : public ::testing::TestWithParam<Kind> {};
INSTANTIATE_TEST_SUITE_P(Schedules, WholeBackward,
                         ::testing::Values(Kind::gpipe, Kind::one_forward_one_backward,
                                           Kind::eager_one_forward_one_backward));

TEST_P(WholeBackward, EmergesFromCreditsAndPrioritiesForUpToEightStagesAndMicroBatches) {
  for (std::size_t stages = 1; stages <= 8; ++stages)
    for (std::size_t micro_batches = 1; micro_batches <= 8; ++micro_batches) {
      const auto steps = simulate(GetParam(), micro_batches, equal_stages(stages));
      for (std::size_t s = 0; s < stages; ++s)
        EXPECT_EQ(order_of(steps, s), static_order(GetParam(), s, stages, micro_batches))
            << "stage " << s << " of " << stages << ", " << micro_batches << " micro-batches";
    }
}

TEST_P(WholeBackward, HasTheBubbleOfTheory) {
  // b = (p - 1)(T_F + T_B) beside m (T_F + T_B) of work.
  for (std::size_t stages = 1; stages <= 8; stages *= 2)
    for (std::size_t micro_batches : {8u, 16u, 32u})
      EXPECT_DOUBLE_EQ(end_of(simulate(GetParam(), micro_batches, equal_stages(stages))),
                       3.0 * static_cast<double>(micro_batches + stages - 1));
}

class EverySchedule : public ::testing::TestWithParam<std::pair<std::string_view, Kind>> {};
INSTANTIATE_TEST_SUITE_P(Schedules, EverySchedule, ::testing::ValuesIn(schedule_names),
                         [](const auto& info) { return std::string(info.param.first); });

TEST_P(EverySchedule, HoldsAtMostItsCreditsBetweenForwardAndBackward) {
  for (std::size_t stages = 1; stages <= 6; ++stages) {
    const auto steps = simulate(GetParam().second, 8, equal_stages(stages));
    for (std::size_t s = 0; s < stages; ++s) {
      const StageSchedule schedule = stage_schedule(GetParam().second, s, stages, 8);
      std::uint32_t held = 0, most = 0, deferred = 0, max_deferred = 0;
      for (const auto& step : order_of(steps, s)) {
        if (step.action == StageAction::forward) ++held;
        if (step.action == StageAction::backward) --held, ++deferred;
        if (step.action == StageAction::weight_gradient) --deferred;
        most = std::max(most, held);
        max_deferred = std::max(max_deferred, deferred);
      }
      EXPECT_EQ(most, schedule.credits) << "stage " << s << " of " << stages;
      if (!schedule.deferred_weight_gradients) continue;
      EXPECT_EQ(deferred, 0u);
      EXPECT_LE(max_deferred, *schedule.deferred_weight_gradients + 1)
          << "stage " << s << " of " << stages;
    }
  }
}

TEST_P(EverySchedule, GoesThroughEveryMicroBatchInItsOrder) {
  for (const std::size_t stages : {1, 2, 5})
    for (const std::size_t micro_batches : {1, 2, 3, 8}) {
      const auto steps = simulate(GetParam().second, micro_batches, equal_stages(stages));
      for (std::size_t s = 0; s < stages; ++s) {
        std::map<StageAction, std::uint32_t> next;
        for (const auto& step : order_of(steps, s))
          EXPECT_EQ(step.micro_batch, next[step.action]++);
        const auto schedule = stage_schedule(GetParam().second, s, stages, micro_batches);
        ASSERT_EQ(next.size(), schedule.deferred_weight_gradients ? 3u : 2u);
        for (const auto& [action, count] : next) EXPECT_EQ(count, micro_batches);
      }
    }
}

// With T_B for the input gradient alone. Stages that take the three equally long are at no moment
// tempted to fill a pause with a weight gradient, which the paper's order would not.
TEST(ZeroBubble, H1HasTheBubbleOfTheoryInNoMoreMemoryThan1F1B) {
  for (const std::size_t stages : {1, 2, 4, 8})
    for (const std::size_t micro_batches : {8u, 16u, 32u}) {
      // (p - 1)(T_F + T_B - T_W)
      const auto bubble = static_cast<double>(stages - 1);
      EXPECT_DOUBLE_EQ(end_of(simulate(Kind::zero_bubble_h1, micro_batches, equal_stages(stages))),
                       3.0 * static_cast<double>(micro_batches) + bubble);
      const auto steps = simulate(Kind::zero_bubble_h1, micro_batches, equal_stages(stages));
      for (std::size_t s = 1; s < stages; ++s) {
        std::size_t held = 0, most = 0;  // from the forward to the end of the backward
        for (const auto& step : order_of(steps, s)) {
          if (step.action == StageAction::forward) most = std::max(most, ++held);
          if (step.action == StageAction::weight_gradient) --held;
        }
        EXPECT_LE(most, stages) << "stage " << s;
      }
    }
}

TEST(ZeroBubble, H2LosesOnlyTheTimeInWhichThePipelineFills) {
  for (const StageTimes times : {StageTimes{1, 1, 1}, {1, 1.1, 0.9}, {1, 1.25, 0.75}})
    for (const std::size_t stages : {1, 2, 4, 8})
      for (const std::size_t micro_batches : {16u, 32u}) {
        const double work = static_cast<double>(micro_batches) * (times.forward + times.backward());
        EXPECT_NEAR(end_of(simulate(Kind::zero_bubble_h2, micro_batches,
                                    std::vector<StageTimes>(stages, times))),
                    work + static_cast<double>(stages - 1) * times.forward, 1e-9)
            << stages << " stages, " << micro_batches << " micro-batches, weights "
            << times.weight_gradient;
      }
}

// 1F1B's first stage may not go on while the gradient that it waits for is late; the eager one has
// a forward left for that time, so that it is always at work where it is the slower one.
TEST(Eager1F1B, HidesTheBubbleOfAFirstStageThatTakesLonger) {
  const std::vector<StageTimes> stages{{1.8, 1.4, 1.3}, {1.5, 1.3, 1.2}};
  const auto end = [&](Kind kind) { return end_of(simulate(kind, 8, stages)); };
  EXPECT_NEAR(end(Kind::eager_one_forward_one_backward), 1.8 + 8 * 4.0 + 2.7, 1e-9);
  EXPECT_GT(end(Kind::one_forward_one_backward), 39.0);
  // The slower one never waits where the other one sends its gradients before it makes its own.
  EXPECT_NEAR(end(Kind::zero_bubble_h2), 8 * 4.5, 1e-9);
}

// What a stage may have under way at once, counted by the schedule's own words.
TEST(EdgeSlots, HoldAllThatAScheduleLetsAStageHaveUnderWay) {
  for (const auto& [name, kind] : schedule_names)
    for (std::size_t stages : {2u, 3u, 8u})
      for (std::size_t s = 0; s < stages; ++s) {
        SCOPED_TRACE(::testing::Message() << name << ", stage " << s << " of " << stages);
        const StageSchedule here = stage_schedule(kind, s, stages, 16);
        const auto max_deferred = [](const StageSchedule& schedule) {
          return schedule.deferred_weight_gradients ? *schedule.deferred_weight_gradients + 1
                                                    : 0;  // and the one in hand
        };
        if (s + 1 == stages) {
          const EdgeSlots slots = slots_to_loss(here);
          EXPECT_GE(slots.gradients, here.credits + max_deferred(here));
          continue;
        }
        const StageSchedule next = stage_schedule(kind, s + 1, stages, 16);
        const EdgeSlots slots = slots_between(here, next);
        EXPECT_EQ(slots.outputs, here.credits + max_deferred(next));
        EXPECT_EQ(slots.gradients, 1 + std::max(1u, max_deferred(here)));
      }
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

TEST(NextAction, MakesWeightGradientsWhenItOwesTooManyOrHasNothingElseToDo) {
  const StageSchedule schedule{.credits = 3, .deferred_weight_gradients = 1};
  const auto next = [&](bool backward, bool forward, std::uint32_t deferred) {
    return next_action({.can_backward = backward,
                        .can_forward = forward,
                        .in_flight = 1,
                        .deferred = deferred,
                        .can_run_deferred = deferred > 0},
                       schedule);
  };
  EXPECT_EQ(next(true, true, 1), StageAction::forward);
  EXPECT_EQ(next(true, false, 1), StageAction::backward);
  EXPECT_EQ(next(false, false, 1), StageAction::weight_gradient);
  EXPECT_EQ(next(true, true, 2), StageAction::weight_gradient);
  EXPECT_EQ(next(false, false, 0), std::nullopt);
}

TEST(NextAction, KeepsAPauseEmptyWhileItMayOweMoreAndAGradientMayCome) {
  const StageSchedule schedule{.credits = 3, .deferred_weight_gradients = 2};
  const StageView waits{.in_flight = 2, .deferred = 1, .can_run_deferred = true};
  EXPECT_EQ(next_action(waits, schedule), std::nullopt);
  StageView owes_all = waits, nothing_in_flight = waits, no_slot = waits;
  owes_all.deferred = 2;
  nothing_in_flight.in_flight = 0;
  no_slot.gradient_may_come = false;
  for (const StageView& view : {owes_all, nothing_in_flight, no_slot})
    EXPECT_EQ(next_action(view, schedule), StageAction::weight_gradient);
}

TEST(NextAction, GoesOnlyForwardWhileItOwesTooManyAndTheReducersHaveNoSlot) {
  const StageSchedule schedule{.credits = 3, .deferred_weight_gradients = 1};
  EXPECT_EQ(next_action({.can_backward = true, .can_forward = true, .deferred = 2}, schedule),
            StageAction::forward);
  EXPECT_EQ(next_action({.can_backward = true, .deferred = 2}, schedule), std::nullopt);
}

TEST(NextAction, UpdatesBeforeAnythingElse) {
  EXPECT_EQ(next_action({.can_update = true, .can_backward = true, .can_forward = true}, {}),
            StageAction::update);
}

TEST(DrawnSchedule, ShowsEachStageOnALine) {
  const std::vector<StageTimes> stages(2, {1, 0.5, 0.5});
  const auto steps = simulate(Kind::one_forward_one_backward, 2, stages);
  EXPECT_EQ(draw(steps, 45),
            "stage 0  F0----F1----......B0====......B1====\n"
            "stage 1  ......F0----B0====F1----B1====......\n");
}

TEST(DrawnSchedule, TellsWeightGradientsApart) {
  const auto steps = simulate(Kind::zero_bubble_h1, 2, equal_stages(2));
  EXPECT_EQ(draw(steps, 9 + 35),
            "stage 0  F0---F1---.....B0========B1========\n"
            "stage 1  .....F0---B0===F1---B1===W0~~~W1~~~\n");
}

}  // namespace
}  // namespace troupe
