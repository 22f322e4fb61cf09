// The states that a resumed run begins with: where they are, and for how long.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/error.h"
#include "training_run.h"

namespace troupe::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Of four steps, after the first.
TrainingRun resumed() {
  static const TrainingResult whole = train({.steps = 4, .snapshot_every = 1});
  return {.steps = 4, .from = whole.written.at(1), .first_step = 1};
}
const std::string& digest_of_the_whole() {
  static const std::string digest = train({.steps = 4}).digest;
  return digest;
}

PipelineOptions pipeline_on_cpu() {
  PipelineOptions pipeline = pipeline_of(resumed());
  pipeline.stream.device = Device::cpu();
  return pipeline;
}

RunOptions remaining_steps() {
  return {.steps = {.first = 1, .count = 4}, .scheduling = Scheduling::deterministic};
}

std::string error_of_run(const Graph& graph) {
  try {
    run(graph, remaining_steps());
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(StartingState, IsFreedByTheFirstCommit) {
  PipelineOptions pipeline = pipeline_on_cpu();
  const std::vector<std::weak_ptr<const StateVersion>> states(pipeline.initial.begin(),
                                                              pipeline.initial.end());
  ASSERT_EQ(states.size(), 2u);
  std::vector<std::uint32_t> held;  // the steps in which one was there
  const auto is_there = [](const auto& state) { return !state.expired(); };
  pipeline.on_step = [&](const StepSeen& seen) {
    if (std::ranges::any_of(states, is_there)) held.push_back(seen.step);
  };
  const Graph graph = build_pipeline(pipeline);
  pipeline.initial.clear();
  EXPECT_TRUE(std::ranges::all_of(states, is_there)) << "the graph has not run";
  run(graph, remaining_steps());
  EXPECT_THAT(held, ::testing::Each(2u)) << "in the first step of this run, after one of the other";
}

TEST(StartingState, IsThereForAReplacementBeforeTheFirstCommit) {
  TrainingRun failing = resumed();
  failing.faults = {{.actor = "stage/1", .step = 1, .action = "B"}};
  const TrainingResult result = train(failing);
  EXPECT_EQ(result.failures.size(), 1u);
  EXPECT_EQ(result.digest, digest_of_the_whole());
}

TEST(StartingState, IsNotNeededByAReplacementAfterTheFirstCommit) {
  TrainingRun failing = resumed();
  failing.faults = {{.actor = "stage/1", .step = 2, .action = "B"}};
  const TrainingResult result = train(failing);
  EXPECT_EQ(result.failures.size(), 1u);
  EXPECT_EQ(result.digest, digest_of_the_whole());
}

// A step that was committed before the run began is announced to the actors too.
TEST(StartingState, IsThereForARunWithoutSteps) {
  TrainingRun evaluating = resumed();
  evaluating.steps = evaluating.first_step;
  evaluating.adjust = [](PipelineOptions& pipeline) { pipeline.evaluates_first = true; };
  const TrainingResult result = train(evaluating);
  ASSERT_EQ(result.evaluations.size(), 1u);
  EXPECT_TRUE(result.steps.empty());
}

// Random weights in its place would train without any sign of it.
TEST(StartingState, IsRequiredOfEachStageOfAResumedRun) {
  PipelineOptions pipeline = pipeline_on_cpu();
  pipeline.initial[1] = nullptr;
  EXPECT_THAT(error_of_run(build_pipeline(pipeline)),
              HasSubstr("stage 1 has no state to begin with"));
}

TEST(StartingState, IsRefusedForAnotherNumberOfStages) {
  PipelineOptions pipeline = pipeline_on_cpu();
  pipeline.initial.resize(1);
  try {
    build_pipeline(pipeline);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_THAT(error.what(), HasSubstr("for 1 stage, but the pipeline has 2"));
  }
}

TEST(StartingState, IsGoneWhenItsGraphRunsAgain) {
  const Graph graph = build_pipeline(pipeline_on_cpu());
  EXPECT_THAT(error_of_run(graph), IsEmpty());
  EXPECT_THAT(error_of_run(graph), HasSubstr("build a graph for each run"));
}

}  // namespace
}  // namespace troupe::testing
