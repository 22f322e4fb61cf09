#include "actors/checkpoint_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "actors/starting_state.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/flow/run.h"
#include "training_run.h"

namespace troupe {
namespace {

class CheckpointFiles : public ::testing::Test {
 protected:
  CheckpointFiles() { std::filesystem::remove_all(folder_); }
  ~CheckpointFiles() override { std::filesystem::remove_all(folder_); }

  static Snapshot snapshot(std::size_t stage, const std::string& name) {
    StateSpec spec;
    spec.add_parameter(name, Shape{2, 3}, {});
    auto state = initial_state(spec, DType::f32, 1);
    return {stage, std::move(state), std::make_shared<const StateSpec>(std::move(spec))};
  }

  Result<std::filesystem::path> write(std::int64_t step, const std::vector<Snapshot>& snapshots) {
    Manifest manifest;
    manifest.step = step;
    return write_snapshots(folder_, std::move(manifest), snapshots, {2});
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() /
      (std::string("troupe_") + ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(CheckpointFiles, HoldTheTensorsOfEveryStage) {
  ASSERT_TRUE(write(7, {snapshot(0, "front.weight"), snapshot(1, "back.weight")}));
  const Checkpoint checkpoint = open_checkpoint(folder_ / "step_00000007");
  EXPECT_EQ(checkpoint.manifest().step, 7);
  const auto tensors = load_tensors(checkpoint);
  ASSERT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors[0].name, "back.weight");
  EXPECT_EQ(tensors[1].name, "front.weight");
}

TEST_F(CheckpointFiles, KeepTheNewest) {
  for (const std::int64_t step : {1, 2, 3}) ASSERT_TRUE(write(step, {snapshot(0, "weight")}));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "step_00000001"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "step_00000002"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "step_00000003"));
}

TEST_F(CheckpointFiles, StayBesideTheLaterOnesOfAnotherRun) {
  for (const std::int64_t step : {70, 80, 90}) ASSERT_TRUE(write(step, {snapshot(0, "weight")}));
  for (const std::int64_t step : {1, 2, 3}) ASSERT_TRUE(write(step, {snapshot(0, "weight")}));
  for (const std::int64_t step : {2, 3, 80, 90})
    EXPECT_TRUE(std::filesystem::exists(folder_ / checkpoint_name(step))) << step;
  EXPECT_FALSE(std::filesystem::exists(folder_ / checkpoint_name(1)));
}

TEST_F(CheckpointFiles, SayWhatTheFileSystemRefused) {
  folder_ = "/proc/nothing";
  const auto made = write(1, {snapshot(0, "weight")});
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message().find("/proc/nothing"), std::string::npos)
      << made.error().message();
}

TEST_F(CheckpointFiles, OfAPipelineSayHowItsSamplesWereNormalised) {
  PipelineOptions pipeline = pipeline_of(testing::TrainingRun{});
  pipeline.data.mean = {0.25};
  pipeline.data.std = {0.5};
  pipeline.writer = CheckpointWriterOptions{.folder = folder_};
  const RunReport report =
      run(build_pipeline(pipeline),
          {.steps = {.count = timeline_of(pipeline).steps, .snapshot_at_end = true}});
  const std::string options =
      open_checkpoint(folder_ / checkpoint_name(report.steps)).manifest().options;
  EXPECT_NE(options.find("mean: [0.25]"), std::string::npos) << options;
  EXPECT_NE(options.find("std: [0.5]"), std::string::npos) << options;
  EXPECT_NE(options.find("name: mnist_cnn"), std::string::npos) << options;
}

/// Changes nothing.
struct OtherOptimizer {
  static constexpr std::string_view name = "other";
  std::vector<std::string> state_names() const { return {}; }
  void update(const Stream&, const OptimizerStep&, const OptimizerSlice& slice) const {
    std::ranges::copy(slice.weights.elements<float>(),
                      Tensor(slice.new_weights).elements<float>().begin());
  }
};

// The sums on their way are not in a checkpoint, so the next steps update nothing.
TEST_F(CheckpointFiles, CountTheUpdatesNotTheStepsForAdam) {
  constexpr std::uint32_t staleness = 2;
  PipelineOptions pipeline =
      testing::pipeline_of({.partition = {2, 2}, .steps = 9, .adjust = testing::use_adamw});
  pipeline.staleness = staleness;
  const auto run_to = [&](std::uint32_t step) {
    PipelineOptions part = pipeline;
    part.writer = CheckpointWriterOptions{.folder = folder_};
    run(build_pipeline(part),
        {.steps = {.first = part.first_step, .count = step, .snapshot_at_end = true}});
    resume_from(pipeline, folder_);
    ASSERT_EQ(pipeline.first_step, step);
  };
  run_to(5);
  for (const StatePtr& state : pipeline.initial) {
    EXPECT_EQ(state->updates, 3);
    EXPECT_EQ(state->optimizer_state.size(), 3u);  // and the moving average
  }
  run_to(9);
  for (const StatePtr& state : pipeline.initial) EXPECT_EQ(state->updates, 5);
}

TEST_F(CheckpointFiles, AreRefusedIfTheirNumberOfUpdatesCannotBe) {
  for (const char* updates : {"-1", "7", "", "six", "6 "}) {
    PipelineOptions pipeline = testing::pipeline_of(testing::TrainingRun{});
    pipeline.writer = CheckpointWriterOptions{
        .write = [&](std::uint32_t step, const std::vector<Snapshot>& snapshots, const auto&) {
          Manifest manifest;
          manifest.step = step;
          manifest.run = {{"updates", updates}, {"optimizer", "sgd"}};
          std::vector<ShardContent> shards;
          for (const Snapshot& snapshot : snapshots)
            shards.push_back({static_cast<int>(snapshot.stage),
                              named_tensors(*snapshot.spec, *snapshot.state, true)});
          const auto written = write_checkpoint(folder_, manifest, shards);
          return written ? success() : Status(written.error());
        }};
    run(build_pipeline(pipeline), {.steps = {.count = 6, .snapshot_at_end = true}});
    try {
      resume_from(pipeline, folder_);
      FAIL() << updates;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      EXPECT_NE(error.message().find("of step 6 has a wrong number"), std::string::npos)
          << error.message();
    }
  }
}

TEST_F(CheckpointFiles, OfAnotherOptimizerAreNotResumed) {
  PipelineOptions pipeline = pipeline_of(testing::TrainingRun{});
  pipeline.writer = CheckpointWriterOptions{.folder = folder_};
  run(build_pipeline(pipeline),
      {.steps = {.count = timeline_of(pipeline).steps, .snapshot_at_end = true}});
  EXPECT_NO_THROW(resume_from(pipeline, folder_));
  pipeline.optimizer = OtherOptimizer{};
  try {
    resume_from(pipeline, folder_);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_NE(error.message().find("written with sgd"), std::string::npos) << error.message();
  }
}

TEST_F(CheckpointFiles, OfAProgramsOwnOptimizerAreResumedWithIt) {
  PipelineOptions pipeline = pipeline_of(testing::TrainingRun{});
  pipeline.optimizer = OtherOptimizer{};
  pipeline.writer = CheckpointWriterOptions{.folder = folder_};
  run(build_pipeline(pipeline),
      {.steps = {.count = timeline_of(pipeline).steps, .snapshot_at_end = true}});
  EXPECT_NO_THROW(resume_from(pipeline, folder_));
  EXPECT_EQ(pipeline.first_step, timeline_of(pipeline).steps);
}

TEST_F(CheckpointFiles, OfTheLastStepOrALaterOneEndARunThatResumesFromThem) {
  PipelineOptions pipeline = pipeline_of(testing::TrainingRun{.steps = 6});
  pipeline.writer = CheckpointWriterOptions{.folder = folder_};
  run(build_pipeline(pipeline), {.steps = {.count = 6, .snapshot_at_end = true}});
  resume_from(pipeline, folder_);
  pipeline.on_step = [](const StepSeen& seen) { FAIL() << "step " << seen.step; };
  pipeline.on_evaluation = [](const Evaluation& seen) { FAIL() << "evaluation " << seen.step; };
  pipeline.writer->write = [](std::uint32_t step, const auto&, const auto&) -> Status {
    ADD_FAILURE() << "checkpoint of step " << step;
    return success();
  };
  for (const std::uint32_t steps : {6u, 4u})
    for (const bool plateau : {false, true}) {
      pipeline.max_steps = steps;
      if (plateau) pipeline.rate.schedule = LearningRateSchedule::plateau;
      const RunReport report =
          run(build_pipeline(pipeline),
              {.steps = {.first = pipeline.first_step, .count = steps, .snapshot_at_end = true},
               .scheduling = Scheduling::deterministic});
      EXPECT_EQ(report.steps, 6u);
      EXPECT_FALSE(report.stopped);
    }
}

}  // namespace
}  // namespace troupe
