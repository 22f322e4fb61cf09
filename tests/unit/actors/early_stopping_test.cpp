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
  EXPECT_EQ(reason_to_stop(criteria, evaluations({3, 2.75, 2.5})),
            "No better test_loss by more than 0.5 in 2 evaluations.");
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

// The rates of torch.optim.lr_scheduler.ReduceLROnPlateau(factor=0.5, patience=1, threshold=0.01,
// threshold_mode="abs") of PyTorch 2.15.
TEST(Plateau, LowersTheRateAsPyTorchDoes) {
  const LearningRateOptions rate{.schedule = LearningRateSchedule::plateau,
                                 .lr = 1,
                                 .step_factor = 0.5,
                                 .plateau_patience = 1};
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> losses{1.0,  0.9,  0.895, 0.893, 0.892, 0.8, 0.81, 0.82,
                                   0.83, 0.84, nan,   0.7,   0.7,   0.7, 0.7};
  const std::vector<double> expected{1.0,  1.0,   1.0,   0.5,   0.5,   0.5,    0.5,   0.25,
                                     0.25, 0.125, 0.125, 0.125, 0.125, 0.0625, 0.0625};
  std::vector<Evaluation> seen;
  for (std::size_t i = 0; i < losses.size(); ++i) {
    seen.push_back({.loss = losses[i]});
    LearningRateOptions now = rate;
    now.plateau_factor = plateau_factor(rate, MonitoredScore::test_loss, 0.01, seen);
    EXPECT_EQ(learning_rate(now, 5), expected[i]) << "after evaluation " << i;
  }
}

// The same with mode="max" and threshold=0.
TEST(Plateau, TakesAnEqualAccuracyForNoImprovement) {
  const LearningRateOptions rate{.schedule = LearningRateSchedule::plateau,
                                 .lr = 1,
                                 .step_factor = 0.5,
                                 .plateau_patience = 0};
  const auto factor_after = [&](const std::vector<std::int64_t>& correct) {
    std::vector<Evaluation> seen;
    for (const std::int64_t count : correct)
      seen.push_back({.loss = 1, .correct = count, .count = 10});
    return plateau_factor(rate, MonitoredScore::test_accuracy, 0, seen);
  };
  EXPECT_EQ(factor_after({5}), 1);
  EXPECT_EQ(factor_after({5, 5}), 0.5);
  EXPECT_EQ(factor_after({5, 5, 6}), 0.5);
  EXPECT_EQ(factor_after({5, 5, 6, 6, 6}), 0.125);
}

/// No score can improve: the rate halves after each evaluation but the first.
TrainingRun on_a_plateau() {
  TrainingRun run;
  run.steps = 12;
  run.adjust = [](PipelineOptions& pipeline) {
    pipeline.stopping.min_delta = 1e9;
    pipeline.rate = {.schedule = LearningRateSchedule::plateau,
                     .lr = 0.05,
                     .step_factor = 0.5,
                     .plateau_patience = 0};
  };
  return run;
}

TEST(Plateau, ActsFromTheStepAfterTheEvaluationOn) {
  const TrainingResult plateau = train(on_a_plateau());
  TrainingRun constant = on_a_plateau();
  constant.adjust = [](PipelineOptions& pipeline) { pipeline.rate = {.lr = 0.05}; };
  const TrainingResult rest = train(constant);
  ASSERT_EQ(plateau.steps.size(), 12);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(plateau.steps[i].loss, rest.steps[i].loss) << i;
  EXPECT_NE(plateau.steps[7].loss, rest.steps[7].loss) << "step 6 was the first with half the rate";
}

TEST(Plateau, DoesNotDependOnReplicasStagesThreadsFailuresAndResumption) {
  const TrainingResult expected = train(on_a_plateau());
  std::vector<TrainingRun> runs(8, on_a_plateau());
  for (std::size_t i = 0; i < 3; ++i) runs[i].order = i + 2;
  runs[1].partition = {1, 1, 2};
  runs[2].replicas = 2;
  runs[3].scheduling = Scheduling::threads;
  runs[4].faults = {{"monitor", 6, 1, "M"}, {"monitor", 9, 0, "rate"}};
  runs[5].faults = {{"stage/1", 6, 0, "U"}, {"stage/0", 9, 2, "B"}};
  runs[6].faults = {{"reducer/0", 7, 3, "R"}};
  runs[7].first_step = 6;
  TrainingRun first = on_a_plateau();
  first.steps = 6;
  const TrainingResult half = train(first);
  runs[7].from = half.written.at(6);
  runs[7].adjust = [&, adjust = runs[7].adjust](PipelineOptions& pipeline) {
    adjust(pipeline);
    pipeline.stopping.before = half.evaluations;
  };
  for (const TrainingRun& run : runs) {
    SCOPED_TRACE(&run - runs.data());
    const TrainingResult result = train(run);
    EXPECT_EQ(result.failures.size(), run.faults.size());
    EXPECT_EQ(result.digest, expected.digest);
    EXPECT_EQ(result.evaluations.back().loss, expected.evaluations.back().loss);
  }
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

TEST(Plateau, NeedsEvaluations) {
  TrainingRun run = on_a_plateau();
  run.evaluates = false;
  EXPECT_THAT([&] { train(run); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("`evaluates` is false")));
}

TEST(EarlyStopping, NeedsEvaluations) {
  TrainingRun run = stopped_after(2);
  run.evaluates = false;
  EXPECT_THROW(train(run), Error);
}

TEST(EarlyStopping, IgnoresTheFailureOfAStageInAStepThatItCutsOff) {
  TrainingRun run{.samples = 8, .steps = 9, .adjust = [](PipelineOptions& pipeline) {
                    pipeline.stopping.min_delta = 1e9;
                    pipeline.stopping.patience = 3;
                  }};
  for (const char* action : {"F", "B"})
    for (run.order = 1; run.order <= 100; ++run.order) {
      SCOPED_TRACE(::testing::Message() << action << ", order " << run.order);
      run.faults = {{"stage/1", 4, 0, action}};
      EXPECT_EQ(train(run).report.steps, 4u);
    }
}

}  // namespace
}  // namespace troupe
