#include "actors/early_stopping.h"

#include <gmock/gmock.h>

#include <limits>

#include "training_run.h"

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::reported;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

/// Evaluations with these losses, and as many correct of 10.
std::vector<Evaluation> evaluations(const std::vector<double>& losses,
                                    const std::vector<std::int64_t>& correct = {}) {
  std::vector<Evaluation> result;
  for (std::size_t i = 0; i < losses.size(); ++i)
    result.push_back({.step = static_cast<std::uint32_t>(i + 1),
                      .loss = losses[i],
                      .correct = i < correct.size() ? correct[i] : 0,
                      .count = 10});
  return result;
}

TEST(EarlyStopping, NeverEndsARunByDefault) {
  EXPECT_EQ(reason_to_stop({}, evaluations({1, 2, 3}, {10, 10, 10})), "");
}

TEST(EarlyStopping, WaitsUntilThePatienceReachesTheTarget) {
  EarlyStopping criteria{.target_accuracy = 0.9};
  EXPECT_EQ(reason_to_stop(criteria, {}), "");
  EXPECT_EQ(reason_to_stop(criteria, evaluations({1}, {8})), "");
  EXPECT_EQ(reason_to_stop(criteria, evaluations({1}, {9})), "Target accuracy reached.");
  criteria.patience = 2;
  EXPECT_EQ(reason_to_stop(criteria, evaluations({1}, {10})), "");
  EXPECT_EQ(reason_to_stop(criteria, evaluations({1, 1, 1}, {9, 8, 9})), "");
  EXPECT_EQ(reason_to_stop(criteria, evaluations({1, 1, 1}, {8, 9, 10})),
            "Target accuracy reached.");
}

TEST(EarlyStopping, EndsARunThatNoLongerImproves) {
  EarlyStopping criteria{.patience = 2};
  EXPECT_EQ(reason_to_stop(criteria, evaluations({3, 2, 2})), "");
  EXPECT_EQ(reason_to_stop(criteria, evaluations({3, 2, 2, 2.5})),
            "No better test_loss in 2 evaluations.");
  EXPECT_EQ(reason_to_stop(criteria, evaluations({3, 2, 2.5, 1.9})), "");
  criteria.min_delta = 0.5;  // an improvement is larger
  EXPECT_NE(reason_to_stop(criteria, evaluations({3, 2.75, 2.5})), "");
  EXPECT_EQ(reason_to_stop(criteria, evaluations({3, 2.75, 2.25})), "");
  criteria = {.patience = 1, .monitor = MonitoredScore::test_accuracy};
  EXPECT_EQ(reason_to_stop(criteria, evaluations({1, 2}, {5, 6})), "");
  EXPECT_THAT(reason_to_stop(criteria, evaluations({2, 1}, {5, 5})), HasSubstr("test_accuracy"));
}

TEST(EarlyStopping, TakesALossThatIsNoNumberForWorseThanAny) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const EarlyStopping criteria{.patience = 1};
  EXPECT_EQ(reason_to_stop(criteria, evaluations({nan, 5})), "");
  EXPECT_NE(reason_to_stop(criteria, evaluations({5, nan})), "");
  EXPECT_NE(reason_to_stop(criteria, evaluations({nan, nan})), "");
}

/// A run of three steps an epoch that no score can improve, so it ends after `epochs` of five.
TrainingRun stopped_after(std::uint32_t epochs) {
  TrainingRun run;
  run.steps = 15;
  run.adjust = [epochs](PipelineOptions& pipeline) {
    pipeline.stopping = {.patience = epochs - 1, .min_delta = 1e9};
  };
  return run;
}

TEST(EarlyStopping, LeavesTheBitsOfARunOfSoManySteps) {
  TrainingRun whole;
  whole.steps = 6;
  const TrainingResult expected = train(whole);
  for (std::uint64_t order = 1; order <= 20; ++order) {
    TrainingRun run = stopped_after(2);
    run.order = order;
    run.snapshot_every = order % 4;  // 3: the last step has a snapshot already
    const TrainingResult result = train(run);
    EXPECT_EQ(result.report.steps, 6);
    EXPECT_FALSE(result.report.stopped);
    EXPECT_EQ(result.digest, expected.digest);
    EXPECT_EQ(result.written.rbegin()->first, 6);
    EXPECT_EQ(reported(result), reported(expected));
  }
}

TEST(EarlyStopping, DoesNotDependOnReplicasStagesThreadsAndFailures) {
  TrainingRun whole;
  whole.steps = 6;
  const TrainingResult expected = train(whole);
  std::vector<TrainingRun> runs(5, stopped_after(2));
  runs[0].partition = {1, 1, 2};
  runs[1].replicas = 2;
  runs[2].scheduling = Scheduling::threads;
  runs[3].faults = {{.actor = "monitor", .step = 5, .purpose = Purpose::evaluate},
                    {.actor = "stage/0", .step = 6}};
  runs[4].faults = {{.actor = "monitor", .step = 6}, {.actor = "reducer", .step = 6}};
  for (const TrainingRun& run : runs) {
    const TrainingResult result = train(run);
    EXPECT_EQ(result.report.steps, 6);
    EXPECT_EQ(result.digest, expected.digest);
    EXPECT_EQ(reported(result), reported(expected));
  }
}

TEST(EarlyStopping, CountsTheEvaluationsBeforeAResumption) {
  const TrainingResult whole = train(stopped_after(4));
  ASSERT_EQ(whole.report.steps, 12);
  TrainingRun first;
  first.steps = 6;
  const TrainingResult half = train(first);
  TrainingRun rest = stopped_after(4);
  rest.first_step = 6;
  rest.from = half.written.at(6);
  rest.adjust = [&, adjust = rest.adjust](PipelineOptions& pipeline) {
    adjust(pipeline);
    pipeline.stopping.before = half.evaluations;
  };
  const TrainingResult result = train(rest);
  EXPECT_EQ(result.report.steps, 12);
  EXPECT_EQ(result.digest, whole.digest);
}

TEST(EarlyStopping, MayFollowFromTheEvaluationThatAResumedRunBeginsWith) {
  TrainingRun first;
  first.steps = 6;
  const TrainingResult half = train(first);
  TrainingRun rest = stopped_after(2);
  rest.first_step = 6;
  rest.from = half.written.at(6);
  rest.adjust = [&, adjust = rest.adjust](PipelineOptions& pipeline) {
    adjust(pipeline);
    pipeline.evaluates_first = true;
    pipeline.stopping.before = {half.evaluations.front()};
  };
  const TrainingResult result = train(rest);
  EXPECT_EQ(result.report.steps, 6);
  EXPECT_TRUE(result.written.empty()) << "the run began from that checkpoint";
  EXPECT_TRUE(result.steps.empty());
}

TEST(EarlyStopping, NeedsEvaluations) {
  TrainingRun run = stopped_after(2);
  run.evaluates = false;
  EXPECT_THROW(train(run), Error);
}

}  // namespace
}  // namespace troupe
