#include "training_run.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <mutex>
#include <optional>
#include <string_view>

#include "actors/data/datasets.h"
#include "delayed_device.h"
#include "guarded_memory.h"
#include "ops/models/models.h"
#include "ops/nn/network.h"
#include "ops/optim/optimizers.h"
#include "runtime/device/own_stream.h"
#include "runtime/file/digest.h"

namespace troupe::testing {
namespace {

constexpr std::int64_t classes = 4;

ModelSource source_of(const TrainingRun& run) {
  if (run.model == "wide_resnet")
    return WideResNet{.widths = {2, 2, 4, 4}, .classes = classes, .dropout = run.dropout};
  if (run.model == "resnet18")
    return ResNet18{{.stem = ResNetStem::cifar, .widths = {4, 4, 8, 16}, .classes = classes}};
  if (run.model == "cifar_cnn") return CifarCnn{.classes = classes};
  return MnistCnn{.classes = classes};
}

std::int64_t side_of(const std::string& model) {
  if (model == "wide_resnet") return 28;
  return model == "cifar_cnn" ? 16 : 8;
}

std::vector<StatePtr> states_of(const TrainingRun& run, const PipelineOptions& pipeline) {
  std::vector<StatePtr> states;
  std::size_t first = 0;
  for (std::size_t blocks : run.partition) {
    const Network part(model_of(pipeline), first, first + blocks, run.dtype, {});
    states.push_back(state_from(part.spec(), run.dtype, TensorSource::of(run.from), run.first_step,
                                pipeline.optimizer.state_names(), /*strict=*/false));
    first += blocks;
  }
  return states;
}

bool is_delayed() {
  const char* const device = std::getenv("TROUPE_TEST_DEVICE");
  return device && std::string_view(device) == "delayed";
}

}  // namespace

Device test_device() { return is_delayed() ? delayed_device() : Device::cpu(); }

PipelineOptions pipeline_of(const TrainingRun& run) {
  const std::int64_t side = side_of(run.model);
  const Dataset dataset = open_dataset(
      Synthetic{.shape = {1, side, side}, .classes = classes, .count = run.samples}, {.seed = 3});
  const std::int64_t per_epoch =
      (run.samples + (run.drop_last ? 0 : run.batch_size - 1)) / run.batch_size;
  PipelineOptions pipeline{.model = source_of(run),
                           .dtype = run.dtype,
                           .stream = {.device = test_device()},
                           .seed = run.seed,
                           .partition = run.partition,
                           .replicas = run.replicas,
                           .schedule = run.schedule,
                           .data = {.dataset = dataset,
                                    .augment = {Augment::flip, Augment::crop},
                                    .drop_last = run.drop_last,
                                    .workers = run.workers},
                           .batch_size = run.batch_size,
                           .micro_batches = run.micro_batches,
                           .epochs = (run.steps + per_epoch - 1) / per_epoch,
                           .max_steps = run.steps,
                           .evaluates = run.evaluates,
                           .first_step = run.first_step,
                           .rate = {.lr = 0.05},
                           .optimizer = Sgd{.momentum = 0.9, .weight_decay = 5e-4},
                           .around = run.around};
  if (run.adjust) run.adjust(pipeline);
  if (run.first_step > 0) pipeline.initial = states_of(run, pipeline);
  return pipeline;
}

void use_adamw(PipelineOptions& pipeline) {
  pipeline.optimizer = Optimizer(AdamW{.weight_decay = 0.1}).with_clip_norm(0.05).with_average(0.9);
  pipeline.loss.label_smoothing = 0.1;
  pipeline.rate = {.schedule = LearningRateSchedule::polynomial, .lr = 0.01, .power = 0.9};
}

void freeze_layers(PipelineOptions& pipeline) {
  const Sgd sgd{.momentum = 0.9};
  pipeline.optimizer = Optimizer(sgd).with_clip_norm(0.5).with_groups(
      {{.parameters = {"layer1.*", "layer2.*"}, .optimizer = sgd, .lr = 0.0}});
}

void scale_losses(PipelineOptions& pipeline) {
  pipeline.loss.class_weights = std::vector<double>(4, 4096.0);
  pipeline.rate.lr /= 4096;
  pipeline.loss_scale = {.mode = LossScaling::dynamic,
                         .init_scale = 0x1p122,
                         .growth_interval = 2,
                         .growth_factor = 16,
                         .backoff_factor = 0.125};
}

namespace {

TrainingResult train_once(const TrainingRun& run) {
  TrainingResult result;
  std::mutex mutex;
  PipelineOptions pipeline = pipeline_of(run);
  pipeline.on_step = [&](const StepSeen& seen) {
    result.steps.push_back(seen);
    if (run.on_step) run.on_step(seen);
  };
  pipeline.on_evaluation = [&](const Evaluation& seen) { result.evaluations.push_back(seen); };
  pipeline.writer = CheckpointWriterOptions{
      .in_background = run.scheduling == Scheduling::threads,
      .write = [&](std::uint32_t step, const std::vector<Snapshot>& snapshots,
                   const auto&) -> Status {
        if (run.on_write)
          if (Status refused = run.on_write(step); !refused) return refused;
        std::vector<NamedTensor> tensors;
        for (const Snapshot& snapshot : snapshots) {
          const OwnStream stream({.device = snapshot.state->weights.device()});
          const StatePtr state = on_cpu(stream.get(), snapshot.state);
          for (auto& tensor : named_tensors(*snapshot.spec, *state, true))
            tensors.push_back(std::move(tensor));
        }
        const std::lock_guard lock(mutex);
        result.written[step] = std::move(tensors);
        return success();
      },
      .on_checkpoint = [&](const CheckpointSeen& seen) { result.checkpoints.push_back(seen); }};
  RunOptions options{.threads = run.threads,
                     .steps = {.first = run.first_step,
                               .count = run.steps,
                               .snapshot_every = {run.snapshot_every},
                               .snapshot_at_end = true},
                     .restarts = run.restarts,
                     .faults = run.faults,
                     .trace = run.trace,
                     .stop = run.stop,
                     .scheduling = run.scheduling,
                     .seed = run.order,
                     .outside = run.outside};
  options.on_failure = [&](const FailureReport& failure) { result.failures.push_back(failure); };
  result.report = troupe::run(build_pipeline(pipeline), options);
  if (!result.written.empty()) result.digest = digest(result.written.rbegin()->second);
  return result;
}

/// Each run of a process has another order of the device's work. In every second run, errors of
/// streams end the run, so votes do not wait. In every fourth run the device's memory is guarded,
/// not in all, since this is slow.
TrainingResult train_with_delays(TrainingRun run) {
  static std::uint64_t runs = 0;
  const std::uint64_t seed = run.order + runs;
  std::optional<OpenedMemory> opened;
  if (runs++ % 4 > 0) opened.emplace();
  const bool threads = run.scheduling == Scheduling::threads;
  const DelayedWork work(seed, threads ? Pace::thread : Pace::by_hand);
  if (runs % 2 == 0) DelayedWork::let_failures_last();
  if (!threads) run.outside = work.outside();
  TrainingResult result = train_once(run);
  EXPECT_THAT(DelayedWork::violations(), ::testing::IsEmpty()) << "seed " << seed;
  return result;
}

}  // namespace

TrainingResult train(const TrainingRun& run) {
  return is_delayed() ? train_with_delays(run) : train_once(run);
}

std::vector<std::string> reported(const TrainingResult& result) {
  std::vector<std::string> lines;
  for (const StepSeen& step : result.steps)
    lines.push_back(fmt::format("{}: {:.17g} {} of {}", step.step, step.loss,
                                step.accuracy.value_or(-1), step.samples));
  for (const Evaluation& e : result.evaluations)
    lines.push_back(
        fmt::format("after {}: {:.17g} {} of {}", e.step, e.loss, e.correct.value_or(-1), e.count));
  return lines;
}

}  // namespace troupe::testing
