// Runs whose losses are scaled. Gradients are made to overflow in f32 by class weights and large
// scales: no kernel for f16 is needed.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>

#include "actors/starting_state.h"
#include "ops/optim/optimizers.h"
#include "runtime/file/checkpoint_folder.h"
#include "training_run.h"

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::pipeline_of;
using testing::reported;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

using Adjust = std::function<void(PipelineOptions&)>;

Adjust with(const Adjust& first, const Adjust& second) {
  return [=](PipelineOptions& pipeline) {
    if (first) first(pipeline);
    second(pipeline);
  };
}

Adjust scaled(LossScaleOptions scale) {
  return [=](PipelineOptions& pipeline) { pipeline.loss_scale = scale; };
}

/// Gradients in the range of thousands, with a rate that suits them. They overflow in f32 with
/// scales above about 2^115.
void enlarge_gradients(PipelineOptions& pipeline) {
  pipeline.loss.class_weights = std::vector<double>(4, 4096.0);
  pipeline.rate.lr /= 4096;
}

/// Begins with overflows, and grows until there are others.
constexpr LossScaleOptions overflowing{.mode = LossScaling::dynamic,
                                       .init_scale = 0x1p122,
                                       .growth_interval = 2,
                                       .growth_factor = 16,
                                       .backoff_factor = 0.125};

const Adjust overflows = with(enlarge_gradients, scaled(overflowing));

/// "1: 65536", "2: 32768, skipped"
std::vector<std::string> scales(const TrainingResult& result) {
  std::vector<std::string> lines;
  for (const StepSeen& seen : result.steps)
    lines.push_back(fmt::format("{}: {}{}", seen.step, seen.loss_scale.value_or(-1),
                                seen.skipped ? ", skipped" : ""));
  return lines;
}

void expect_same(const TrainingResult& result, const TrainingResult& reference) {
  EXPECT_EQ(result.digest, reference.digest);
  EXPECT_EQ(reported(result), reported(reference));
  EXPECT_EQ(scales(result), scales(reference));
}

std::int64_t skipped_steps(const TrainingResult& result) {
  return std::ranges::count_if(result.steps, &StepSeen::skipped);
}

TrainingRun overflowing_run(std::vector<std::size_t> partition = {2, 2}) {
  return {.partition = std::move(partition), .steps = 12, .adjust = overflows};
}

const TrainingResult& reference() {
  static const TrainingResult result = [] {
    TrainingRun run = overflowing_run({4});
    run.snapshot_every = 1;
    return train(run);
  }();
  return result;
}

TEST(ScaledLosses, ChangeNoBitWhereNoGradientOverflows) {
  LossScaleOptions scale{.mode = LossScaling::dynamic, .growth_interval = 2};
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Adjust& adjust : {Adjust(), Adjust(testing::use_adamw), Adjust([](auto& pipeline) {
                                   pipeline.optimizer = pipeline.optimizer.with_clip_value(0.01);
                                 })}) {
      TrainingRun run{.partition = {1, 3}, .dtype = dtype, .adjust = adjust};
      const TrainingResult plain = train(run);
      EXPECT_FALSE(plain.steps.front().loss_scale);
      for (const double init_scale : {1.0, 65536.0, 0x1p90}) {
        scale.init_scale = init_scale;
        run.adjust = with(adjust, scaled(scale));
        const TrainingResult result = train(run);
        EXPECT_EQ(result.digest, plain.digest) << init_scale;
        EXPECT_EQ(reported(result), reported(plain));
        EXPECT_EQ(skipped_steps(result), 0);
        EXPECT_EQ(result.steps.back().loss_scale, 4 * init_scale) << "it has grown twice";
      }
    }
}

TEST(ScaledLosses, ChangeNoBitOfAWideResNet) {
  TrainingRun run{.model = "wide_resnet", .partition = {4, 8}, .replicas = 2, .steps = 3};
  const TrainingResult plain = train(run);
  run.adjust = scaled({.mode = LossScaling::fixed, .init_scale = 1024});
  EXPECT_EQ(train(run).digest, plain.digest);
}

TEST(ScaledLosses, SkipStepsByTheRuleOfTheScale) {
  LossScale scale = loss_scale_after(overflowing, std::nullopt);
  for (const StepSeen& seen : reference().steps) {
    EXPECT_EQ(seen.loss_scale, scale.scale) << seen.step;
    scale = next_loss_scale(overflowing, scale, !seen.skipped);
    EXPECT_TRUE(std::isfinite(seen.loss));
  }
  EXPECT_TRUE(reference().steps.front().skipped);
  EXPECT_GE(skipped_steps(reference()), 3) << ::testing::PrintToString(scales(reference()));
  EXPECT_LE(skipped_steps(reference()), 9) << ::testing::PrintToString(scales(reference()));
  const auto first_finite = std::ranges::find(reference().steps, false, &StepSeen::skipped);
  EXPECT_TRUE(std::any_of(first_finite, reference().steps.end(), [](const StepSeen& seen) {
    return seen.skipped;
  })) << "no step overflows after the scale has grown";
}

TEST(ScaledLosses, MakeTheSameBitsForAnyStagesReplicasSchedulesAndOrders) {
  for (const std::vector<std::size_t>& partition :
       {std::vector<std::size_t>{4}, {2, 2}, {1, 3}, {1, 1, 2}, {1, 1, 1, 1}})
    for (const std::uint32_t replicas : {1, 2, 3})
      for (const auto& [name, schedule] : schedule_names)
        for (const std::uint64_t order : {1, 2}) {
          SCOPED_TRACE(::testing::Message() << name << ", " << partition.size() << " stages, "
                                            << replicas << " replicas, order " << order);
          TrainingRun run = overflowing_run(partition);
          run.replicas = replicas;
          run.schedule = schedule;
          run.order = order;
          if (order == 2)
            run.adjust =
                with(overflows, [](PipelineOptions& pipeline) { pipeline.bucket_cap_bytes = 1; });
          expect_same(train(run), reference());
        }
}

TEST(ScaledLossesThreadedActors, MakeTheSameBits) {
  for (const int threads : {1, 3}) {
    TrainingRun run = overflowing_run({1, 1, 2});
    run.replicas = 2;
    run.scheduling = Scheduling::threads;
    run.threads = threads;
    expect_same(train(run), reference());
  }
}

/// What a checkpoint has under names that `wanted` accepts, in the order of the names.
std::map<std::string, std::vector<std::byte>> bytes_of(
    const std::vector<NamedTensor>& tensors, const std::function<bool(std::string_view)>& wanted) {
  std::map<std::string, std::vector<std::byte>> result;
  for (const NamedTensor& tensor : tensors)
    if (wanted(tensor.name)) {
      auto& bytes = result[tensor.name];
      bytes.resize(tensor.tensor.bytes());
      std::memcpy(bytes.data(), tensor.tensor.raw(), bytes.size());
    }
  return result;
}

TEST(ScaledLosses, KeepAllButTheStatisticsInASkippedStep) {
  TrainingRun run{.model = "wide_resnet",
                  .partition = {5, 7},
                  .steps = 8,
                  .snapshot_every = 1,
                  .adjust = with(testing::use_adamw, overflows)};
  const TrainingResult result = train(run);
  const auto is_statistic = [](std::string_view name) {
    return name.find("running_") != name.npos || name.ends_with("num_batches_tracked");
  };
  const auto is_other = [&](std::string_view name) { return !is_statistic(name); };
  int skipped = 0, finite = 0;
  for (std::uint32_t step = 2; step <= 8; ++step) {
    SCOPED_TRACE(step);
    const bool is_skipped = result.steps.at(step - 1).skipped;
    ++(is_skipped ? skipped : finite);
    const auto &before = result.written.at(step - 1), &after = result.written.at(step);
    EXPECT_EQ(bytes_of(before, is_other) == bytes_of(after, is_other), is_skipped);
    EXPECT_NE(bytes_of(before, is_statistic), bytes_of(after, is_statistic)) << "as in PyTorch";
  }
  EXPECT_GT(skipped, 0);
  EXPECT_GT(finite, 0);
}

TEST(ScaledLosses, LeaveNoTraceOfAFault) {
  // Step 0 is skipped; the others fall on both kinds.
  for (const std::uint32_t step : {0u, 3u, 4u, 7u})
    for (const FaultOptions& fault :
         std::vector<FaultOptions>{{"stage/0", step, 1, "B"},
                                   {"stage/1", step, 3, "B"},
                                   {"stage/1", step, 0, "U"},
                                   {"stage/0", step, 0, "U"},
                                   {"stage/1", step, 1, "Q"},
                                   {"gradient_norm", step, 0, "N"},
                                   {"gradient_norm", step, 0, "collect"},
                                   {"monitor", step, 0, "norm"},
                                   {"monitor", step, 2, "M"},
                                   {"reducer/0", step, 3, "R"},
                                   {"loss", step, 2, "L"}})
      for (const std::uint64_t order : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << fault.actor << " " << fault.action << " in step "
                                          << step << ", order " << order);
        TrainingRun run = overflowing_run();
        run.faults = {fault};
        run.order = order;
        const TrainingResult result = train(run);
        EXPECT_EQ(result.failures.size(), 1u);
        expect_same(result, reference());
      }
}

TEST(ScaledLosses, AreDivergenceIfTheGradientIsNotFiniteWithTheSmallestScale) {
  LossScaleOptions scale = overflowing;
  scale.init_scale = 0x1p126;
  scale.min_scale = 0x1p123;
  TrainingRun run = overflowing_run();
  run.adjust = with(enlarge_gradients, scaled(scale));
  std::vector<StepSeen> steps;
  run.on_step = [&](const StepSeen& seen) { steps.push_back(seen); };
  try {
    train(run);
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::diverged);
    EXPECT_THAT(error.message(), HasSubstr("the gradient of step 2 is not finite with the smallest "
                                           "loss scale, 1.0633823966279327e+37"));
    EXPECT_THAT(error.remedy(), HasSubstr("lower `lr`"));
  }
  ASSERT_EQ(steps.size(), 1u) << "the step is not committed";
  EXPECT_TRUE(steps.front().skipped);

  run.adjust = with(run.adjust, [](PipelineOptions& pipeline) { pipeline.stop_on_nan = false; });
  const TrainingResult result = train(run);
  EXPECT_EQ(skipped_steps(result), 12);
  EXPECT_EQ(result.steps.back().loss_scale, scale.min_scale);
}

TEST(ScaledLosses, DoNotHideALossThatIsNotFinite) {
  TrainingRun run = overflowing_run();
  run.adjust = [](PipelineOptions& pipeline) {
    pipeline.loss_scale.mode = LossScaling::dynamic;
    pipeline.rate.lr = 1e30;
  };
  try {
    train(run);
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::diverged);
    EXPECT_THAT(error.message(), HasSubstr("the loss of step"));
  }
}

TEST(ScaledLosses, KeepAFixedScale) {
  TrainingRun run = overflowing_run();
  run.adjust = with(enlarge_gradients, scaled({.mode = LossScaling::fixed, .init_scale = 0x1p126}));
  const TrainingResult result = train(run);
  EXPECT_EQ(skipped_steps(result), 12);
  for (const StepSeen& seen : result.steps) EXPECT_EQ(seen.loss_scale, 0x1p126);
}

TEST(ScaledLosses, EndARunAllOfWhoseStepsAFixedScaleSkips) {
  TrainingRun run = overflowing_run();
  run.adjust = with(enlarge_gradients, scaled({.mode = LossScaling::fixed, .init_scale = 0x1p126}));
  run.steps = 60;
  run.evaluates = false;
  try {
    train(run);
    FAIL() << "the run went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::diverged);
    EXPECT_THAT(error.message(), HasSubstr("50 steps up to step 50"));
  }
}

std::string refusal(const PipelineOptions& pipeline) {
  try {
    build_pipeline(pipeline);
  } catch (const Error& error) {
    return error.what();
  }
  return "none";
}

TEST(ScaledLosses, AreRefusedWithStaleness) {
  PipelineOptions pipeline = pipeline_of({.adjust = overflows});
  EXPECT_EQ(refusal(pipeline), "none");
  pipeline.staleness = 1;
  EXPECT_THAT(refusal(pipeline), HasSubstr("`staleness` is 1, but losses are scaled"));
  pipeline.loss_scale.mode = LossScaling::none;
  EXPECT_EQ(refusal(pipeline), "none");
  EXPECT_THROW(Stage({.loss_scale = overflowing,
                      .staleness = 1,
                      .micro_batches = [](std::uint32_t) { return 1; }}),
               Error);
  EXPECT_THROW(Stage({.loss_scale = LossScaleOptions{.init_scale = 3}}), Error);
}

TEST(ScaledLosses, AreThoseOfProductsInF16ByDefault) {
  PipelineOptions pipeline = pipeline_of({});
  EXPECT_FALSE(loss_scale_options(pipeline));
  pipeline.stream.products = DType::f16;
  EXPECT_EQ(loss_scale_options(pipeline), LossScaleOptions{.mode = LossScaling::dynamic});
  pipeline.loss_scale.mode = LossScaling::none;
  EXPECT_FALSE(loss_scale_options(pipeline));
  pipeline.loss_scale.mode = LossScaling::fixed;
  pipeline.stream.products = DType::f32;
  EXPECT_EQ(loss_scale_options(pipeline)->mode, LossScaling::fixed);
}

class ScaledLossesInCheckpoints : public ::testing::Test {
 protected:
  ~ScaledLossesInCheckpoints() override { std::filesystem::remove_all(folder_); }

  /// Runs to this step, with a checkpoint at the end, and resumes `pipeline_` from there.
  void run_to(std::uint32_t step) {
    PipelineOptions part = pipeline_;
    part.writer = CheckpointWriterOptions{.folder = folder_, .keep = 0};
    part.on_step = [&](const StepSeen& seen) { steps_.push_back(seen); };
    run(build_pipeline(part),
        {.steps = {.first = part.first_step, .count = step, .snapshot_at_end = true}});
    resume_from(pipeline_, folder_);
    ASSERT_EQ(pipeline_.first_step, step);
  }

  /// Replaces the checkpoint by one whose manifest has these entries.
  void change_manifest(const std::function<void(std::map<std::string, std::string>&)>& change) {
    const auto path = newest_complete_checkpoint(folder_).folder;
    const Checkpoint checkpoint = open_checkpoint(path);
    Manifest manifest = checkpoint.manifest();
    manifest.shards.clear();
    change(manifest.run);
    ASSERT_TRUE(write_checkpoint(folder_, manifest, {{0, load_tensors(checkpoint)}}));
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("troupe_loss_scale_" + std::to_string(::getpid()));
  PipelineOptions pipeline_ = pipeline_of(overflowing_run());
  std::vector<StepSeen> steps_;
};

TEST_F(ScaledLossesInCheckpoints, ContinueWithTheSameBits) {
  for (const std::uint32_t step : {1u, 2u, 3u, 5u, 8u, 11u, 12u}) {
    run_to(step);
    const auto skipped = std::ranges::count_if(steps_, &StepSeen::skipped);
    for (const StatePtr& state : pipeline_.initial) EXPECT_EQ(state->updates, step - skipped);
  }
  TrainingResult parts;
  parts.steps = steps_;
  EXPECT_EQ(scales(parts), scales(reference()));
  for (std::uint32_t step = 0; step < 12; ++step)
    EXPECT_EQ(steps_.at(step).loss, reference().steps.at(step).loss);
  std::map<std::string, Tensor> whole;
  for (const NamedTensor& tensor : reference().written.at(12)) whole[tensor.name] = tensor.tensor;
  for (const NamedTensor& tensor :
       load_tensors(open_checkpoint(newest_complete_checkpoint(folder_).folder)))
    EXPECT_EQ(std::memcmp(tensor.tensor.raw(), whole.at(tensor.name).raw(), tensor.tensor.bytes()),
              0)
        << tensor.name;
}

// Of two overflows, the second lowers the scale.
TEST_F(ScaledLossesInCheckpoints, CountTheOverflowsBeforeThem) {
  TrainingRun run = overflowing_run();
  LossScaleOptions patient = overflowing;
  patient.hysteresis = 2;
  run.adjust = with(enlarge_gradients, scaled(patient));
  run.steps = 4;
  pipeline_ = pipeline_of(run);
  for (const std::uint32_t step : {1u, 4u}) run_to(step);
  ASSERT_TRUE(steps_.front().skipped);
  TrainingResult parts;
  parts.steps = steps_;
  EXPECT_EQ(scales(parts), scales(train(run)));
}

TEST_F(ScaledLossesInCheckpoints, BeginWithTheFirstScaleIfNoneIsThere) {
  run_to(5);
  EXPECT_NE(pipeline_.initial.front()->loss_scale->scale, overflowing.init_scale);
  change_manifest([](auto& entries) { EXPECT_EQ(entries.erase("loss_scale"), 1u); });
  resume_from(pipeline_, folder_);
  EXPECT_FALSE(pipeline_.initial.front()->loss_scale);
  steps_.clear();
  run_to(6);
  EXPECT_EQ(steps_.front().loss_scale, overflowing.init_scale);
}

TEST_F(ScaledLossesInCheckpoints, AreIgnoredByARunWithout) {
  run_to(5);
  pipeline_.loss_scale.mode = LossScaling::none;
  resume_from(pipeline_, folder_);
  EXPECT_FALSE(pipeline_.initial.front()->loss_scale);
  steps_.clear();
  run_to(6);
  EXPECT_FALSE(steps_.front().loss_scale);
}

TEST_F(ScaledLossesInCheckpoints, AreRefusedIfTheyCannotBe) {
  run_to(2);
  for (const char* text : {"", "3 0 0", "-2 0 0", "nan 0 0", "inf 0 0", "1e300 0 0", "2 -1 0",
                           "2 0 -1", "2 0", "2 0 0 0", "2 0 x", "0 0 0"}) {
    change_manifest([&](auto& entries) { entries["loss_scale"] = text; });
    try {
      resume_from(pipeline_, folder_);
      FAIL() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_file);
      EXPECT_THAT(error.message(), HasSubstr("has a wrong loss scale"));
    }
  }
}

}  // namespace
}  // namespace troupe
