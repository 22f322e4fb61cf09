// An actor that dies at any micro-batch changes nothing that a user can see but the time.
#include <gmock/gmock.h>

#include <atomic>
#include <random>

#include "training_run.h"

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::reported;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

const TrainingResult& undisturbed() {
  static const TrainingResult result = train({.snapshot_every = 2});
  return result;
}

std::string describe(const std::vector<FaultOptions>& faults) {
  std::string text;
  for (const auto& f : faults)
    text += f.actor + " " + f.action + (f.purpose == Purpose::evaluate ? " evaluating" : "") +
            " step " + std::to_string(f.step) + " micro-batch " + std::to_string(f.micro_batch) +
            "; ";
  return text;
}

/// Trains with the faults and compares everything that was reported and written.
void expect_unharmed(TrainingRun run, std::size_t failures) {
  SCOPED_TRACE(describe(run.faults) + "order " + std::to_string(run.order));
  run.snapshot_every = 2;
  run.restarts.max = 10;
  TrainingResult result;
  ASSERT_NO_THROW(result = train(run));
  // A second death that is met by the replacement of all is no failure of its own.
  EXPECT_GE(result.failures.size(), 1u);
  EXPECT_LE(result.failures.size(), failures);
  EXPECT_EQ(result.digest, undisturbed().digest);
  EXPECT_EQ(reported(result), reported(undisturbed()));
}

/// Every action that a fault can hit in a step.
std::vector<FaultOptions> points(std::uint32_t step) {
  std::vector<FaultOptions> all;
  for (std::uint32_t micro_batch = 0; micro_batch < 4; ++micro_batch) {
    for (const char* stage : {"stage/0", "stage/1"})
      for (const char* action : {"F", "B"}) all.push_back({stage, step, micro_batch, action});
    all.push_back({"loader", step, micro_batch, "load"});
    all.push_back({"loss", step, micro_batch, "L"});
    all.push_back({"reducer/0", step, micro_batch, "R"});
    all.push_back({"reducer/1", step, micro_batch, "R"});
    all.push_back({"monitor", step, micro_batch, "M"});
  }
  for (const char* stage : {"stage/0", "stage/1"}) all.push_back({stage, step, 0, "U"});
  return all;
}

/// The same while the test set is counted: two micro-batches of two samples.
std::vector<FaultOptions> evaluation_points(std::uint32_t step) {
  std::vector<FaultOptions> all;
  for (std::uint32_t micro_batch = 0; micro_batch < 2; ++micro_batch)
    for (const auto& [actor, action] :
         std::vector<std::pair<std::string, std::string>>{{"loader", "load"},
                                                          {"stage/0", "E"},
                                                          {"stage/1", "E"},
                                                          {"loss", "L"},
                                                          {"monitor", "M"}})
      all.push_back({actor, step, micro_batch, action, Purpose::evaluate});
  return all;
}

TEST(Failure, OfAnyActorAtAnyMicroBatchChangesNoNumber) {
  for (const std::uint32_t step : {0, 2, 3, 5})
    for (const FaultOptions& fault : points(step))
      for (const std::uint64_t order : {1, 2})
        expect_unharmed({.faults = {fault}, .order = order}, 1);
}

TEST(Failure, WhileTheTestSetIsCountedCountsItOnce) {
  for (const std::uint32_t step : {2, 5})
    for (const FaultOptions& fault : evaluation_points(step))
      for (const std::uint64_t order : {1, 2, 3})
        expect_unharmed({.faults = {fault}, .order = order}, 1);
}

TEST(Failure, OfTheWriterLosesNoCheckpoint) {
  for (const std::uint32_t step : {1, 3, 5})
    for (const std::uint32_t stage : {0, 1})
      for (const std::uint64_t order : {1, 2, 3})
        expect_unharmed({.faults = {{"writer", step, stage, "S"}}, .order = order}, 1);
}

TEST(Failure, OfAStageRightAfterAnothersChangesNoNumber) {
  const auto all = points(2);
  for (std::size_t a = 0; a < all.size(); a += 3)
    for (std::size_t b = 1; b < all.size(); b += 4)
      expect_unharmed({.faults = {all[a], all[b]}, .order = 1 + a + b}, 2);
}

TEST(Failure, OfTwoActorsAroundACommitChangesNoNumber) {
  auto all = points(3);
  const auto evaluating = evaluation_points(2);
  all.insert(all.end(), evaluating.begin(), evaluating.end());
  const auto first = points(2);
  for (std::size_t a = 0; a < first.size(); a += 5)
    for (std::size_t b = 0; b < all.size(); b += 3)
      expect_unharmed({.faults = {first[a], all[b]}, .order = 1 + a + b}, 2);
}

TEST(Failure, OfOneActorTwiceInAStepChangesNoNumber) {
  for (const char* actor : {"stage/0", "stage/1", "loss", "loader", "monitor", "reducer/0"})
    for (const std::uint64_t order : {1, 2, 3})
      expect_unharmed({.faults = {{actor, 3, 1, {}}, {actor, 3, 2, {}}}, .order = order}, 2);
}

TEST(Failure, OfManyActorsAtRandomChangesNoNumber) {
  std::vector<FaultOptions> all;
  for (const std::uint32_t step : {1, 2, 3, 4, 5})
    for (const FaultOptions& fault : points(step)) all.push_back(fault);
  for (const std::uint32_t step : {2, 5})
    for (const FaultOptions& fault : evaluation_points(step)) all.push_back(fault);
  for (const std::uint32_t step : {1, 3, 5}) all.push_back({"writer", step, 1, "S"});
  for (int i = 0; i < 300; ++i) {
    std::mt19937 random(static_cast<unsigned>(i));
    TrainingRun run;
    run.order = 1 + static_cast<std::uint64_t>(i);
    run.replicas = 1 + random() % 2;
    if (random() % 2 == 0) run.schedule = ScheduleKind::gpipe;
    for (int n = 0; n < 4; ++n) {
      FaultOptions fault = all[random() % all.size()];
      const bool copied = !fault.actor.starts_with("reducer") && fault.actor != "monitor" &&
                          fault.actor != "writer";
      if (run.replicas == 2 && copied) {
        const bool second =
            fault.purpose == Purpose::evaluate ? fault.micro_batch == 1 : fault.micro_batch > 1;
        fault.actor += second ? "/1" : "/0";
      }
      run.faults.push_back(fault);
    }
    expect_unharmed(run, run.faults.size());
  }
}

TEST(Failure, WithReplicasAndOtherSchedulesChangesNoNumber) {
  for (const char* actor : {"stage/0/0", "stage/1/1", "loss/1", "loader/0", "reducer/1", "monitor"})
    for (const std::uint32_t n : {0, 1})
      for (const auto& [name, schedule] : schedule_names)
        for (const std::uint64_t order : {1, 2, 3}) {
          // Replica 0 has micro-batches 0 and 1.
          const std::uint32_t micro_batch = std::string(actor).ends_with("/1") ? 2 + n : n;
          expect_unharmed({.replicas = 2,
                           .schedule = schedule,
                           .faults = {{actor, 2, micro_batch, {}}},
                           .order = order},
                          1);
        }
}

TEST(Failure, BetweenTheHalvesOfABackwardChangesNoNumber) {
  for (const ScheduleKind schedule : {ScheduleKind::zero_bubble_h1, ScheduleKind::zero_bubble_h2})
    for (const char* action : {"B", "W"})
      for (std::uint32_t micro_batch = 0; micro_batch < 4; ++micro_batch)
        for (const std::uint64_t order : {1, 2, 3})
          for (const char* stage : {"stage/1", "stage/2"})
            expect_unharmed({.partition = {1, 1, 2},
                             .schedule = schedule,
                             .faults = {{stage, 2, micro_batch, action}},
                             .order = order},
                            1);
}

TEST(Failure, RestartsAStageAloneAndReplaysOnlyWhatItHeld) {
  const TrainingResult result = train({.faults = {{"stage/1", 2, 1, "B"}}});
  ASSERT_EQ(result.failures.size(), 1u);
  EXPECT_THAT(result.failures[0].replaced, ::testing::ElementsAre("stage/1"));
  EXPECT_EQ(result.failures[0].steps, 2u);
  for (const ActorReport& actor : result.report.actors)
    EXPECT_EQ(actor.restarts, actor.name == "stage/1" ? 1 : 0) << actor.name;
}

TEST(Failure, BeyondTheBudgetEndsTheRunWithItsFirstCause) {
  try {
    train({.faults = {{"stage/1", 2, 1, "F"}, {"stage/1", 2, 2, "F"}}, .restarts = {.max = 1}});
    FAIL() << "the run ended well";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::actor_failed);
    EXPECT_THAT(error.what(),
                ::testing::StartsWith(
                    "stage/1 failed: injected fault in stage/1 at step 2, micro-batch 1"));
  }
}

TEST(Failure, OfWritingIsToldAndTrainingGoesOn) {
  const TrainingResult result =
      train({.snapshot_every = 2, .on_write = [](std::uint32_t step) -> Status {
               if (step == 4) return Error(ErrorCode::io, "the disk is full");
               if (step == 6) throw std::runtime_error("no such folder");
               return success();
             }});
  EXPECT_EQ(reported(result), reported(undisturbed()));
  ASSERT_EQ(result.checkpoints.size(), 3u);
  EXPECT_TRUE(result.checkpoints[0].status);
  EXPECT_THAT(result.checkpoints[1].status.error().what(), HasSubstr("the disk is full"));
  EXPECT_THAT(result.checkpoints[2].status.error().what(), HasSubstr("no such folder"));
  EXPECT_TRUE(result.failures.empty());
}

TEST(FailureThreadedActors, OfAnyActorChangesNoNumber) {
  std::uint64_t n = 0;
  for (const FaultOptions& fault : points(3))
    expect_unharmed({.workers = static_cast<int>(n++ % 3),
                     .scheduling = Scheduling::threads,
                     .threads = 1 + static_cast<int>(n % 3),
                     .faults = {fault}},
                    1);
  for (const std::uint32_t step : {2, 5})
    for (const FaultOptions& fault : evaluation_points(step))
      expect_unharmed({.workers = 1, .scheduling = Scheduling::threads, .faults = {fault}}, 1);
  for (const std::uint32_t stage : {0, 1})
    expect_unharmed({.scheduling = Scheduling::threads, .faults = {{"writer", 5, stage, "S"}}}, 1);
}

// The only snapshot makes the writer publish on its thread; the fault ends the writer meanwhile.
TEST(FailureThreadedActors, OfTheWriterWhileItPublishesLosesNoCheckpoint) {
  std::atomic<int> begun = 0;
  expect_unharmed({.partition = {4},
                   .scheduling = Scheduling::threads,
                   .faults = {{"writer", 1, 0, "S"}},
                   .on_write =
                       [&](std::uint32_t step) {
                         begun += step == 2 ? 1 : 0;
                         return success();
                       }},
                  1);
  EXPECT_EQ(begun, 2) << "the writer did not fail while it published";
}

TEST(FailureThreadedActors, OfTwoActorsChangesNoNumber) {
  const auto all = points(2);
  for (std::size_t a = 0; a < all.size(); a += 4)
    for (std::size_t b = 2; b < all.size(); b += 7)
      if (a != b)
        expect_unharmed(
            {.workers = 1, .scheduling = Scheduling::threads, .faults = {all[a], all[b]}}, 2);
}

}  // namespace
}  // namespace troupe
