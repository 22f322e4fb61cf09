// Options on their way into a run: none may be read and then forgotten.
#include "apps/train/training.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>

#include "actors/data/csv_table.h"
#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "apps/train/warnings.h"
#include "apps/train/world_run.h"
#include "ops/backend.h"
#include "ops/nn/layers.h"
#include "ops/optim/sgd.h"
#include "runtime/world/cores.h"
#include "tests/unit/apps/made_up_gpu.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr std::string_view small = R"(
model: {name: mlp, widths: [8, 8]}
data: {name: synthetic, shape: [1, 4, 4], count: 600}
train: {epochs: 3}
)";

Options options_with(const std::vector<std::string>& overrides) {
  return parse_options(small, "o.yaml", overrides);
}

std::string heading_on(const Backend& gpu, const std::vector<std::string>& overrides) {
  const Options options = options_with(overrides);
  PipelineOptions pipeline = pipeline_options(options, {}, {});
  pipeline.stream.device = {&gpu, 0};
  return run_heading(options, pipeline);
}

TEST(RunHeading, HintsAtFasterPrecisionsThatTheGpuHas) {
  const std::string hint = "\nf32 uses no tensor cores; for speed, try ";
  EXPECT_THAT(heading_on(test::made_up_gpu(), {}),
              HasSubstr(hint + "-r conv_precision=tf32 -r matmul_precision=tf32, or -r "
                               "precision=bf16-mixed"));
  const Backend old = test::made_up_old_gpu();
  EXPECT_THAT(heading_on(old, {"train.micro_batches=1"}), EndsWith(hint + "-r precision=16-mixed"));
  EXPECT_THAT(heading_on(old, {"matmul_precision=tf32"}), HasSubstr(hint)) << "it has no effect";
  const Backend older = test::made_up_gpu(false, [](DType type) { return type == DType::f32; });
  EXPECT_THAT(heading_on(older, {}), Not(HasSubstr("tensor cores")));
}

TEST(RunHeading, HintsAtLargerMicroBatchesOnAGpu) {
  const Backend gpu = test::made_up_gpu();
  const std::string hint = " are small for a GPU; for speed, try -r ";
  EXPECT_THAT(heading_on(gpu, {}),
              EndsWith("\nmicro-batches of 16 samples" + hint + "train.micro_batches=1"));
  EXPECT_THAT(heading_on(gpu, {"parallel.pipeline=2"}),
              EndsWith(hint + "parallel.pipeline=1 -r train.micro_batches=1"));
  EXPECT_THAT(heading_on(gpu, {"parallel.data=2"}), EndsWith(hint + "train.micro_batches=2"));
  for (const std::string option : {"train.micro_batches=1", "train.batch_size=256"})
    EXPECT_THAT(heading_on(gpu, {option}), Not(HasSubstr(hint))) << option;
  const Options options = options_with({"device=cpu"});
  EXPECT_THAT(run_heading(options, pipeline_options(options, {}, {})), Not(HasSubstr(hint)));
}

TEST(RunHeading, LeavesOutSwitchesWithoutEffect) {
  const Backend gpu = test::made_up_gpu(), old = test::made_up_old_gpu();
  const auto with_tf32 = [](const Backend& backend, DType products) {
    const Options options = options_with({"conv_precision=tf32"});
    PipelineOptions pipeline = pipeline_options(options, {}, {});
    pipeline.stream.device = {&backend, 0};
    pipeline.stream.products = products;
    return run_heading(options, pipeline);
  };
  EXPECT_THAT(with_tf32(gpu, DType::f32), HasSubstr(", conv_precision tf32, on cuda:0"));
  EXPECT_THAT(with_tf32(gpu, DType::bf16), HasSubstr(", bf16-mixed, on cuda:0"));
  EXPECT_THAT(with_tf32(old, DType::f32), Not(HasSubstr("conv_precision tf32, on")));
  EXPECT_THAT(heading_on(gpu, {"parallel.intra_op_threads=3"}), Not(HasSubstr("per kernel")));
}

TEST(RunHeading, CountsOneBlock) {
  EXPECT_EQ(partition_text({1}), "1 block");
  EXPECT_EQ(partition_text({3}), "3 blocks");
  EXPECT_EQ(partition_text({1, 1}), "1 + 1 blocks");
}

/// What two steps make of one weight: depends on all hyper-parameters.
float two_updates(const Optimizer& optimizer) {
  const auto one = [](float value) { return Tensor::from<float>({1}, std::span(&value, 1)); };
  std::vector<Tensor> state(optimizer.state_names().size());
  Tensor weights = one(1.0f);
  for (int step = 0; step < 2; ++step) {
    std::vector<Tensor> next;
    for (std::size_t i = 0; i < state.size(); ++i) next.push_back(one(0.0f));
    optimizer.update({}, {.updates = step, .lr = 0.1},
                     {.weights = weights,
                      .gradient = one(0.5f + static_cast<float>(step)),
                      .state = state,
                      .new_weights = weights,
                      .new_state = next});
    state = std::move(next);
  }
  return *weights.data<float>();
}

PipelineOptions pipeline_with(const std::vector<std::string>& overrides) {
  return pipeline_options(options_with(overrides), {});
}

/// As srun starts a task.
class SlurmTask : public testing::Test {
 protected:
  static void set(const std::string& name, const std::string& value) {
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  SlurmTask() {
    for (const auto& [name, value] : variables_) set(name, value);
  }
  ~SlurmTask() override {
    for (const auto& [name, value] : variables_) ::unsetenv(name.c_str());
  }
  const std::map<std::string, std::string> variables_{{"SLURM_PROCID", "0"},
                                                      {"SLURM_STEP_ID", "0"},
                                                      {"SLURM_NTASKS", "1"},
                                                      {"SLURM_STEP_NUM_TASKS", "1"},
                                                      {"SLURM_CPUS_PER_TASK", "1"}};
};

TEST_F(SlurmTask, StartsNoMoreThreadsThanItHasCpusThoughItIsAlone) {
  EXPECT_EQ(available_cores(), 1);
  EXPECT_EQ(actor_threads(options_with({"parallel.pipeline=2"})), 1);
  set("SLURM_CPUS_PER_TASK", "1000");
  EXPECT_EQ(available_cores(), threads_for(usable_cpus().size(), cpu_quota(), 1));
}

TEST_F(SlurmTask, DividesItsCoresAmongTheThreadsOfKernels) {
  const int cores = threads_for(usable_cpus().size(), cpu_quota(), 1);
  EXPECT_EQ(intra_op_threads(options_with({})), 1) << "of one core";
  set("SLURM_CPUS_PER_TASK", "1000");
  ::unsetenv("OMP_NUM_THREADS");
  EXPECT_EQ(intra_op_threads(options_with({})), cores);
  EXPECT_EQ(pipeline_with({}).stream.threads, cores);
  EXPECT_EQ(intra_op_threads(options_with({"parallel.actor_threads=2"})), std::max(1, cores / 2));
  EXPECT_EQ(intra_op_threads(options_with({"parallel.actor_threads=1000"})), 1);
  EXPECT_EQ(intra_op_threads(options_with({"parallel.intra_op_threads=3"})), 3);
  set("OMP_NUM_THREADS", "1");
  EXPECT_EQ(intra_op_threads(options_with({})), 1) << "OMP_NUM_THREADS is an upper limit";
  set("OMP_NUM_THREADS", " 1,2");
  EXPECT_EQ(intra_op_threads(options_with({})), 1) << "the first of a list";
  set("OMP_NUM_THREADS", "two");
  EXPECT_EQ(intra_op_threads(options_with({})), cores);
  EXPECT_THAT(variable_warnings(options_with({})),
              testing::ElementsAre(testing::HasSubstr("OMP_NUM_THREADS=two is not a number")));
  EXPECT_TRUE(variable_warnings(options_with({"parallel.intra_op_threads=3"})).empty());
  ::unsetenv("OMP_NUM_THREADS");
}

TEST_F(SlurmTask, CountsCoresThatExplicitNumbersOfThreadsLeaveIdle) {
  set("SLURM_CPUS_PER_TASK", "1000");
  const int cores = available_cores();
  EXPECT_EQ(idle_cores(options_with({})), 0);
  EXPECT_EQ(idle_cores(options_with({"parallel.intra_op_threads=1"})), cores - 1);
  EXPECT_EQ(idle_cores(options_with({fmt::format("parallel.intra_op_threads={}", cores)})), 0);
}

/// Takes until something is printed on stderr, at its first use.
struct SlowModel {
  static constexpr std::string_view name = "slow_model";
  Model make(const SampleSpec& samples) const {
    static bool waited = false;
    struct stat printed {};
    for (int i = 0; !waited && i < 1000; ++i) {
      if (::fstat(STDERR_FILENO, &printed) != 0 || printed.st_size > 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    waited = true;
    Model model;
    model.add<nn::Flatten>("flatten");
    model.add<nn::Linear>("layer", LinearOptions{.in_features = samples.shape.element_count(),
                                                 .out_features = samples.classes});
    return model;
  }
};

TEST(Measurement, IsAnnouncedIfItTakesLong) {
  PipelineOptions pipeline = pipeline_with({});
  pipeline.model = SlowModel{};
  testing::internal::CaptureStderr();
  measure(pipeline);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "measuring the blocks of slow_model for micro-batches of 16 samples\n");
  EXPECT_EQ(pipeline.block_costs.size(), 2);
}

TEST(TrainingOptions, TheLearningRateIsWhatTheOptionsSay) {
  const LearningRateOptions rate = learning_rate_options(
      pipeline_with({"train.lr=0.025", "train.schedule=one_cycle", "train.warmup_steps=5",
                     "train.step_epochs=7", "train.step_factor=0.3", "train.steps=4"}));
  EXPECT_EQ(rate.schedule, LearningRateSchedule::one_cycle);
  EXPECT_EQ(rate.lr, 0.025);
  EXPECT_EQ(rate.warmup_steps, 5);
  EXPECT_EQ(rate.step_epochs, 7);
  EXPECT_EQ(rate.step_factor, 0.3);
  EXPECT_EQ(rate.steps_per_epoch, 9);  // 600 samples in whole batches of 64
  EXPECT_EQ(rate.total_steps, 27) << "ending a run early must not change its rates";
}

TEST(TrainingOptions, EverySchedulePassesThrough) {
  for (const auto& [name, schedule] : learning_rate_schedule_names)
    EXPECT_EQ(pipeline_with({fmt::format("train.schedule={}", name)}).rate.schedule, schedule);
}

TEST(TrainingOptions, TheOptimizerIsWhatTheOptionsSay) {
  const auto made = pipeline_with({"train.momentum=0.7", "train.weight_decay=0.02",
                                   "train.nesterov=true", "train.lr=0.3"})
                        .optimizer;
  EXPECT_EQ(two_updates(made),
            two_updates(Sgd{.momentum = 0.7, .weight_decay = 0.02, .nesterov = true}));
}

TEST(TrainingOptions, AnotherOptimizerHasItsOwnDefaults) {
  const auto made = [](const std::vector<std::string>& overrides) {
    return pipeline_with(overrides).optimizer;
  };
  EXPECT_EQ(two_updates(made({"train.optimizer=adam"})), two_updates(Adam{}));
  EXPECT_EQ(two_updates(made({"train.optimizer=adamw"})), two_updates(AdamW{}));
  EXPECT_NE(two_updates(Adam{}), two_updates(AdamW{}));
  EXPECT_EQ(two_updates(made({"train.weight_decay=0.2", "train.optimizer=adamw",
                              "train.betas=[0.5, 0.75]", "train.epsilon=0.125"})),
            two_updates(AdamW{.betas = {0.5, 0.75}, .epsilon = 0.125, .weight_decay = 0.2}));
  EXPECT_EQ(made({"train.optimizer=adam", "train.clip_value=0.5"}).clip_value(), 0.5);
  EXPECT_EQ(made({"train.clip_norm=0.5"}).clip_norm(), 0.5);
  EXPECT_EQ(made({"train.ema_decay=0.5"}).average_decay(), 0.5);
}

TEST(TrainingOptions, AParameterGroupHasTheValuesOfTheRunButForItsOwn) {
  const std::vector<std::string> overrides{
      "train.groups=[{parameters: ['*.bias'], weight_decay: 0}, "
      "{parameters: [layers.0.weight], lr: 0.01, momentum: 0.2}]",
      "train.momentum=0.7", "train.weight_decay=0.02", "train.lr=0.3"};
  const Options options = options_with(overrides);
  const auto groups = pipeline_options(options, {}).optimizer.groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_THAT(groups[0].parameters, ElementsAre("*.bias"));
  EXPECT_EQ(groups[0].lr, std::nullopt);
  EXPECT_EQ(two_updates(groups[0].optimizer), two_updates(Sgd{.momentum = 0.7}));
  EXPECT_EQ(groups[1].lr, 0.01);
  EXPECT_EQ(two_updates(groups[1].optimizer),
            two_updates(Sgd{.momentum = 0.2, .weight_decay = 0.02}));
  const std::string text = resolved_yaml(options);
  EXPECT_THAT(text,
              testing::HasSubstr("groups: [{parameters: [\"*.bias\"], weight_decay: 0}, "
                                 "{parameters: [layers.0.weight], lr: 0.01, momentum: 0.2}]"));
  EXPECT_EQ(resolved_yaml(parse_options(text, "o.yaml")), text);
}

TEST(TrainingOptions, TheSeedReachesWeightsDropoutSamplesAndTheirChanges) {
  const PipelineOptions pipeline = pipeline_with({"seed=99"});
  EXPECT_EQ(pipeline.seed, 99u);
  EXPECT_EQ(loader_options(pipeline, 0).sampler.seed, 99u);
  EXPECT_EQ(loader_options(pipeline, 0).transform.seed, 99u);
}

std::string model_text(const PipelineOptions& pipeline) {
  ModelSource model = pipeline.model;
  std::string text =
      fmt::format("{} on {}", model.name(), to_string(pipeline.data.dataset.samples().shape));
  for (const OptionField& field : model.options())
    text += fmt::format(", {} {}", field.path, field.write());
  return text;
}

TEST(TrainingOptions, SamplesArePreparedAsTheOptionsSay) {
  const LoaderOptions loader = loader_options(
      pipeline_with({"data.augment=[crop, flip]", "data.mean=[0.4]", "data.std=[0.2]",
                     "data.shuffle=false", "data.drop_last=false", "data.workers=3",
                     "train.batch_size=50", "train.micro_batches=5", "parallel.data=2",
                     "data.limit=120", "data.test_limit=11"}),
      0);
  EXPECT_THAT(loader.transform.augment, ElementsAre(Augment::crop, Augment::flip));
  EXPECT_THAT(loader.transform.mean, ElementsAre(0.4));
  EXPECT_THAT(loader.transform.std, ElementsAre(0.2));
  EXPECT_EQ(loader.transform.dtype, DType::f32);
  EXPECT_FALSE(loader.sampler.shuffle);
  EXPECT_FALSE(loader.sampler.drop_last);
  EXPECT_EQ(loader.sampler.samples, 120);
  EXPECT_EQ(loader.sampler.batch_size, 50);
  EXPECT_EQ(loader.sampler.micro_batches, 5);
  EXPECT_EQ(loader.sampler.replicas, 2);
  EXPECT_EQ(loader.workers, 3);
  EXPECT_EQ(loader.timeline.steps_per_epoch, 3u);  // 50, 50 and 20 samples
  EXPECT_EQ(loader.dataset.count(Split::test), 11);
}

TEST(TrainingOptions, TheModelAndItsPlacementAreWhatTheOptionsSay) {
  const PipelineOptions pipeline = pipeline_with(
      {"model.classes=12", "precision=64-true", "parallel.data=2", "parallel.schedule=gpipe",
       "parallel.pipeline=2", "parallel.intra_op_threads=2"});
  EXPECT_EQ(pipeline.model.name(), "mlp");
  EXPECT_THAT(model_text(pipeline), HasSubstr("model.widths [8, 8]"));
  EXPECT_THAT(model_text(pipeline), HasSubstr("model.classes 12"));
  EXPECT_EQ(pipeline.dtype, DType::f64);
  EXPECT_EQ(loader_options(pipeline, 0).transform.dtype, DType::f64);
  EXPECT_EQ(pipeline.replicas, 2u);
  EXPECT_EQ(pipeline.schedule, ScheduleKind::gpipe);
  EXPECT_EQ(pipeline.partition.size(), 2u);
  EXPECT_EQ(pipeline.stream.threads, 2);
}

TEST(TrainingOptions, FaultsRestartsAndSnapshotsReachTheRun) {
  const Options options = options_with(
      {"faults=[{actor: stage/0, step: 3, micro_batch: 2}]", "restarts.max=8", "restarts.within=9",
       "checkpoint.every_steps=6", "trace=true", "train.steps=20", "parallel.actor_threads=3"});
  StartingPoint start;
  start.steps = 4;
  const RunOptions run = run_options(options, pipeline_options(options, start));
  ASSERT_EQ(run.faults.size(), 1u);
  EXPECT_EQ(run.faults[0].actor, "stage/0");
  EXPECT_EQ(run.faults[0].step, 3u);
  EXPECT_EQ(run.faults[0].micro_batch, 2u);
  EXPECT_EQ(run.restarts.max, 8);
  EXPECT_EQ(run.restarts.within, std::chrono::seconds(9));
  EXPECT_EQ(run.steps.first, 4u);
  EXPECT_EQ(run.steps.count, 20u);
  EXPECT_EQ(run.steps.snapshot_every.front(), 6u);
  EXPECT_TRUE(run.steps.snapshot_at_end);
  EXPECT_TRUE(run.trace);
  EXPECT_EQ(run.threads, 3);
}

TEST(TrainingOptions, CheckpointsFollowEachEpochUnlessOptionsSayOtherwise) {
  const auto steps = [](const std::vector<std::string>& overrides) {
    const Options options = options_with(overrides);
    return run_options(options, pipeline_options(options, {})).steps;
  };
  EXPECT_THAT(steps({}).snapshot_every, ElementsAre(0u, 9u)) << "600 samples in batches of 64";
  EXPECT_EQ(steps({}).snapshot_after, std::chrono::milliseconds(0));
  EXPECT_TRUE(steps({}).snapshot_at_end);
  EXPECT_THAT(steps({"checkpoint.every_epochs=2"}).snapshot_every, ElementsAre(0u, 18u));
  EXPECT_THAT(steps({"checkpoint.every_epochs=0"}).snapshot_every, ElementsAre(0u, 0u));
  EXPECT_EQ(steps({"checkpoint.every_minutes=0.5"}).snapshot_after, std::chrono::seconds(30));
  EXPECT_EQ(steps({"checkpoint.every_minutes=90"}).snapshot_after, std::chrono::minutes(90));
  EXPECT_EQ(steps({"checkpoint.every_minutes=1e-9"}).snapshot_after, std::chrono::milliseconds(1))
      << "0 would be none";
}

TEST(DataHeading, SendsNoControlCharactersToATerminal) {
  const test::TemporaryFolder folder;
  test::write_text(folder / "t.csv", "a,\xc2\x9bmy\n1,\x1bone\n2,zw\u00f6lf\n");
  const std::string heading = data_heading(open_dataset(CsvTable{.path = folder / "t.csv"}));
  EXPECT_THAT(heading, HasSubstr("target ?my: 0 ?one, 1 zw\u00f6lf"));
}

/// Everything of a run that options can change, as text.
std::string run_as_text(const Options& options) {
  const PipelineOptions p = pipeline_options(options, {});
  const LearningRateOptions rate = learning_rate_options(p);
  const RunOptions run = run_options(options, p);
  const auto number = [](auto value) { return static_cast<int>(value); };
  std::string text = fmt::format("{} {} {} {}\n", model_text(p), number(p.dtype), p.cuda_graphs,
                                 p.stream.deterministic);
  text += fmt::format("{} {} {} {} {} {} {} {}\n", p.seed, p.partition, p.replicas, p.micro_batches,
                      number(p.schedule), p.stream.threads, p.bucket_cap_bytes, p.staleness);
  text += fmt::format("{} {} {} {} {} {} {} {} {}\n", number(rate.schedule), rate.lr,
                      rate.total_steps, rate.warmup_steps, rate.steps_per_epoch, rate.step_epochs,
                      rate.step_factor, rate.power, rate.plateau_patience);
  text += fmt::format("{} {} {} {} {} {} {}\n", two_updates(p.optimizer), p.optimizer.clip_value(),
                      p.optimizer.clip_norm(), p.optimizer.average_decay(), number(p.loss.kind),
                      p.loss.label_smoothing, p.loss.class_weights);
  for (const ParameterGroup& group : p.optimizer.groups())
    text += fmt::format("{} {} {}\n", group.parameters, group.lr.value_or(-1),
                        two_updates(group.optimizer));
  const LoaderOptions loader = loader_options(p, 0);
  text += fmt::format("{} {} {} {}", loader.dataset.name(), loader.dataset.samples().classes,
                      loader.dataset.count(Split::train), loader.dataset.count(Split::test));
  for (const Augment augment : loader.transform.augment)
    text += fmt::format(" {}", number(augment));
  text += fmt::format(" {} {} {} {} {} {} {}\n", loader.transform.mean, loader.transform.std,
                      loader.sampler.shuffle, loader.sampler.drop_last, loader.sampler.batch_size,
                      loader.sampler.micro_batches, loader.workers);
  text +=
      fmt::format("{} {} {}\n", loader.mix.mixup_alpha, loader.mix.cutmix_alpha, p.data.resident);
  text +=
      fmt::format("{} {} {}\n", loader.timeline.steps, loader.timeline.evaluates, p.stop_on_nan);
  text += fmt::format("{} {} {} {}\n", p.stopping.target_accuracy, p.stopping.patience,
                      number(p.stopping.monitor), p.stopping.min_delta);
  const LossScaleOptions& scale = p.loss_scale;
  text += fmt::format("{} {} {} {} {} {} {}\n", number(scale.mode), scale.init_scale,
                      scale.growth_interval, scale.growth_factor, scale.backoff_factor,
                      scale.min_scale, scale.hysteresis);
  text += fmt::format("{} {} {} {} {} {}\n", run.threads, run.steps.snapshot_every,
                      run.restarts.max, run.restarts.within.count(), run.faults.size(), run.trace);
  text += fmt::format("{}\n", run.steps.snapshot_after.count());
  const TransportOptions& world = options.transport;
  text += fmt::format("{} {} {}\n", world.transport, world.interface, world.timeout.count());
  return text;
}

/// An option with another value than the default, and what it needs beside it.
const std::vector<std::vector<std::string>> changes = {
    {"seed=2"},
    {"precision=64-true"},
    {"cuda_graphs=true"},
    {"deterministic=false"},
    {"trace=true"},
    {"model.name=mnist_cnn"},
    {"model.widths=[9]"},
    {"model.classes=11"},
    {"data.shape=[1, 5, 4]"},
    {"data.classes=9"},
    {"data.count=700"},
    {"data.mean=[0.5]"},
    {"data.std=[0.5]"},
    {"data.shuffle=false"},
    {"data.augment=[flip]"},
    {"data.color_jitter=[0.4, 0.4, 0.4]", "data.augment=[color_jitter]"},
    {"data.mixup_alpha=0.2"},
    {"data.cutmix_alpha=1"},
    {"data.drop_last=false"},
    {"data.workers=0"},
    {"data.resident=true"},
    {"data.limit=500"},
    {"data.test_limit=50"},
    {"train.epochs=4"},
    {"train.steps=5"},
    {"train.batch_size=32"},
    {"train.micro_batches=2"},
    {"train.lr=0.2"},
    {"train.momentum=0.5"},
    {"train.weight_decay=0.1"},
    {"train.nesterov=true"},
    {"train.groups=[{parameters: ['*'], lr: 0.5, weight_decay: 0}]"},
    {"train.freeze=['*.bias']"},
    {"train.clip_norm=0.5"},
    {"train.clip_value=0.5"},
    {"train.ema_decay=0.5"},
    {"train.label_smoothing=0.1"},
    {"train.class_weights=[1, 1, 1, 1, 1, 1, 1, 1, 1, 2]"},
    {"train.loss=bce", "data.classes=2", "model.classes=1"},
    {"train.schedule=cosine"},
    {"train.warmup_steps=3"},
    {"train.step_epochs=2"},
    {"train.step_factor=0.5"},
    {"train.power=2"},
    {"train.plateau_patience=2", "train.schedule=plateau"},
    {"train.stop_on_nan=false"},
    {"train.target_accuracy=0.9"},
    {"train.patience=3"},
    {"train.monitor=test_accuracy", "train.patience=3"},
    {"train.min_delta=0.1", "train.patience=3"},
    {"train.evaluate=false"},
    {"loss_scale.mode=dynamic"},
    {"loss_scale.init_scale=32"},
    {"loss_scale.growth_interval=9"},
    {"loss_scale.growth_factor=4"},
    {"loss_scale.backoff_factor=0.25"},
    {"loss_scale.min_scale=2"},
    {"loss_scale.hysteresis=2"},
    {"parallel.pipeline=2"},
    {"parallel.data=2"},
    {"parallel.schedule=gpipe"},
    {"parallel.actor_threads=7"},
    {"parallel.intra_op_threads=61"},
    {"parallel.bucket_cap_mb=0.5"},
    {"parallel.aggregation=asynchronous"},
    {"parallel.staleness=2", "parallel.aggregation=asynchronous"},
    {"parallel.transport=gloo"},
    {"parallel.interface=lo"},
    {"parallel.timeout=5s"},
    {"checkpoint.every_epochs=2"},
    {"checkpoint.every_steps=5"},
    {"checkpoint.every_minutes=0.5"},
    {"restarts.max=1"},
    {"restarts.within=5"},
    {"faults=[{actor: stage/0, step: 1, micro_batch: 0}]"},
};

/// Options of something else: data on the disk, what is begun from, what is written, and those
/// that tests of their own cover.
const std::set<std::string> elsewhere = {"data.train_samples",
                                         "data.train_targets",
                                         "data.test_samples",
                                         "data.test_targets",
                                         "data.test_fraction",
                                         "data.target",
                                         "data.targets",
                                         "data.name",
                                         "data.resize",
                                         "data.image_size",
                                         "data.path",
                                         "model.weights",
                                         "model.file",
                                         "model.initialise",
                                         "model.digest",
                                         "model.strict",
                                         "parallel.partition",
                                         "train.optimizer",
                                         "checkpoint.keep",
                                         "checkpoint.keep_best",
                                         "log.every_steps",
                                         "log.level",
                                         "device",
                                         "matmul_precision",  // refused on the CPU
                                         "conv_precision"};

TEST(TrainingOptions, EachOneChangesTheRun) {
  const std::string before = run_as_text(options_with({}));
  for (const auto& overrides : changes)
    EXPECT_NE(run_as_text(options_with(overrides)), before)
        << overrides[0] << " was read and ignored";
}

/// Options of Adam alone.
const std::vector<std::string> of_adam = {"train.betas=[0.5, 0.75]", "train.epsilon=0.125"};

TEST(TrainingOptions, EachOneOfAnOptimizerChangesTheUpdate) {
  const std::string before = run_as_text(options_with({"train.optimizer=adam"}));
  for (const std::string& change : of_adam)
    EXPECT_NE(run_as_text(options_with({"train.optimizer=adam", change})), before)
        << change << " was read and ignored";
}

/// Options of one model alone.
const std::vector<std::string> of_wide_resnet = {"convolution=direct", "model.dropout=0.5"};
const std::vector<std::string> of_resnet18 = {"convolution=direct", "model.stem=cifar"};

TEST(TrainingOptions, EachOneOfAModelChangesTheModel) {
  for (const auto& [model, changes_of_it] :
       {std::pair{"wide_resnet", of_wide_resnet}, std::pair{"resnet18", of_resnet18}}) {
    const std::vector<std::string> base = {std::string("model.name=") + model,
                                           "model.widths=[2, 2, 2, 2]", "data.shape=[1, 28, 28]"};
    const std::string before = run_as_text(options_with(base));
    for (const std::string& change : changes_of_it) {
      std::vector<std::string> overrides = base;
      overrides.push_back(change);
      EXPECT_NE(run_as_text(options_with(overrides)), before) << change << " was read and ignored";
    }
  }
}

TEST(TrainingOptions, NoneIsMissingFromTheseTests) {
  std::set<std::string> tested = elsewhere;
  for (const auto& overrides : changes)
    tested.insert(overrides[0].substr(0, overrides[0].find('=')));
  for (const auto* some : {&of_wide_resnet, &of_resnet18, &of_adam})
    for (const std::string& change : *some) tested.insert(change.substr(0, change.find('=')));
  Options options;
  for (const OptionField& field : option_fields(options))
    EXPECT_TRUE(tested.contains(field.path)) << field.path << ": add it to `changes`";
}

TEST(TrainingOptions, ThePartitionIsTakenAsItIs) {
  EXPECT_THAT(pipeline_with({"parallel.pipeline=2", "parallel.partition=[1, 3]"}).partition,
              ElementsAre(1u, 3u));
}

}  // namespace
}  // namespace troupe
