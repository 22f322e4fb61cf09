// What stages did when, in real runs, against the orders that the papers draw.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>

#include "slow_program.h"
#include "static_order.h"
#include "training_run.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using testing::SlowProgram;
using testing::static_order;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

std::vector<std::size_t> partition_into(std::size_t stages) {
  return std::vector<std::vector<std::size_t>>{{4}, {2, 2}, {1, 1, 2}, {1, 1, 1, 1}}[stages - 1];
}

TrainingRun run_of(ScheduleKind schedule, std::size_t stages, std::uint32_t micro_batches) {
  return {.partition = partition_into(stages),
          .micro_batches = micro_batches,
          .batch_size = micro_batches,
          .steps = 2,
          .evaluates = false,
          .schedule = schedule,
          .trace = true};
}

/// "F0 F1 B0 B1" of a stage in the second step; in the first one kernels are prepared.
std::string order_of(const TrainingResult& result, std::size_t stage) {
  std::vector<TraceEvent> events;
  for (const TraceEvent& event : result.report.trace)
    if (result.report.actors[event.actor].name == fmt::format("stage/{}", stage) &&
        event.key.step == 1 && (event.name == "F" || event.name == "B"))
      events.push_back(event);
  std::ranges::sort(events, {}, &TraceEvent::begin);
  std::string order;
  for (const TraceEvent& event : events)
    order += fmt::format("{}{} ", event.name, event.key.micro_batch);
  return order;
}

std::string drawn(ScheduleKind schedule, std::size_t stage, std::size_t stages,
                  std::size_t micro_batches) {
  std::string order;
  for (const ScheduleAction& step : static_order(schedule, stage, stages, micro_batches))
    order +=
        fmt::format("{}{} ", step.action == StageAction::forward ? 'F' : 'B', step.micro_batch);
  return order;
}

TEST(Order, OfGPipeIsThatOfThePaperWhateverArrivesFirst) {
  // Every forward of a step comes before its first backward: no timing can change that.
  for (const std::size_t stages : {1, 2, 3, 4})
    for (const std::uint32_t micro_batches : {1, 2, 3, 4, 8})
      for (const std::uint64_t order : {0, 1, 2, 3}) {
        SCOPED_TRACE(
            fmt::format("{} stages, {} micro-batches, order {}", stages, micro_batches, order));
        TrainingRun run = run_of(ScheduleKind::gpipe, stages, micro_batches);
        run.order = order;
        const TrainingResult result = train(run);
        for (std::size_t s = 0; s < stages; ++s)
          EXPECT_EQ(order_of(result, s), drawn(ScheduleKind::gpipe, s, stages, micro_batches));
      }
}

TEST(Order, OfTheLastStageIn1F1BAlternatesWhateverArrivesFirst) {
  constexpr auto kind = ScheduleKind::one_forward_one_backward;
  for (const std::size_t stages : {1, 2, 3, 4})
    for (const std::uint32_t micro_batches : {1, 2, 3, 4, 8})
      for (const std::uint64_t order : {0, 1, 2, 3}) {
        TrainingRun run = run_of(kind, stages, micro_batches);
        run.order = order;
        EXPECT_EQ(order_of(train(run), stages - 1), drawn(kind, stages - 1, stages, micro_batches));
      }
}

// A stage before the last one may go backward early when its next input is late, so the order of
// the paper is that of stages which take equally long. A backward takes twice a forward; then
// whatever a stage waits for comes a forward's time before what would tempt it otherwise, and no
// two come together. A machine too busy to keep that distance gets more of it.
TEST(OrderThreadedActors, Of1F1BIsThatOfThePaperForStagesThatTakeEquallyLong) {
  constexpr auto kind = ScheduleKind::one_forward_one_backward;
  for (const std::size_t stages : {1, 2, 3, 4})
    for (const std::uint32_t micro_batches : {1, 2, 3, 4}) {
      std::vector<std::string> expected, order;
      for (std::size_t s = 0; s < stages; ++s)
        expected.push_back(drawn(kind, s, stages, micro_batches));
      for (auto forward = 2ms; forward <= 64ms && order != expected; forward *= 2) {
        TrainingRun run = run_of(kind, stages, micro_batches);
        run.scheduling = Scheduling::threads;
        run.threads = static_cast<int>(stages) + 2;
        run.around = [forward](std::size_t, std::unique_ptr<StageProgram> inner) {
          return std::make_unique<SlowProgram>(std::move(inner),
                                               SlowProgram::Pauses{forward, 2 * forward});
        };
        const TrainingResult result = train(run);
        order.clear();
        for (std::size_t s = 0; s < stages; ++s) order.push_back(order_of(result, s));
      }
      EXPECT_EQ(order, expected) << stages << " stages, " << micro_batches << " micro-batches";
    }
}

}  // namespace
}  // namespace troupe
