#include "apps/train/warnings.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sched.h>

#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "ops/backend.h"
#include "tests/unit/apps/made_up_gpu.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Options options_with(const std::vector<std::string>& overrides) {
  return parse_options(
      "model: {name: mlp, widths: [8, 8]}\n"
      "data: {name: synthetic, shape: [1, 4, 4], count: 600}\n",
      "o.yaml", overrides);
}

std::vector<std::string> warnings_of(const std::vector<std::string>& overrides,
                                     std::uint32_t processes = 1, const StartingPoint& start = {}) {
  const Options options = options_with(overrides);
  return warnings(options, start, pipeline_options(options, {}, {.processes = processes}));
}

std::string reported(const std::vector<std::string>& overrides, std::uint32_t processes = 1) {
  std::string all;
  for (const std::string& warning : warnings_of(overrides, processes)) all += warning + "\n";
  return all;
}

TEST(Warnings, CountOneCore) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const auto reported = warnings_of({"parallel.intra_op_threads=2"});
  ::sched_setaffinity(0, sizeof before, &before);
  EXPECT_THAT(reported, testing::Contains(HasSubstr("share 1 core; ")));
}

TEST(Warnings, NameGradientsThatAResumedRunLoses) {
  const auto resumed = [](std::uint32_t steps, std::vector<std::string> overrides) {
    overrides.emplace_back("train.steps=8");
    const Options options = options_with(overrides);
    const StartingPoint start{.steps = steps};
    std::string all;
    for (const auto& warning : warnings(options, start, pipeline_options(options, start, {})))
      all += warning + "\n";
    return all;
  };
  const std::vector<std::string> late{"parallel.aggregation=asynchronous", "parallel.staleness=2"};
  EXPECT_THAT(resumed(3, late), HasSubstr("the gradients of the last 2 steps are lost"));
  EXPECT_THAT(resumed(1, late), HasSubstr("the gradients of the last step are lost"));
  for (const std::string& without : {resumed(0, late), resumed(8, late), resumed(3, {})})
    EXPECT_THAT(without, Not(HasSubstr("are lost")));
}

TEST(Warnings, NameAFirstLossScaleThatAResumedRunDoesNotTake) {
  const char* const words =
      "loss_scale.init_scale 1024 has no effect: the run continues with the loss scale of the "
      "checkpoint, 8";
  const auto resumed = [&](const std::vector<std::string>& overrides) {
    const Options options = options_with(overrides);
    PipelineOptions pipeline = pipeline_options(options, {}, {});
    auto state = std::make_shared<StateVersion>();
    state->loss_scale = LossScale{.scale = 8};
    pipeline.initial = {state};
    StartingPoint start{.checkpoint = "run/checkpoints/step_1"};
    start.options = resolved_yaml(options_with({"loss_scale.mode=dynamic"}));
    return warnings(options, start, pipeline);
  };
  EXPECT_THAT(resumed({"loss_scale.mode=dynamic", "loss_scale.init_scale=1024"}),
              testing::Contains(words));
  EXPECT_THAT(resumed({"loss_scale.mode=dynamic"}),
              Not(testing::Contains(HasSubstr("init_scale"))));
  EXPECT_THAT(resumed({"loss_scale.mode=static", "loss_scale.init_scale=1024"}),
              Not(testing::Contains(HasSubstr("init_scale"))));
}

TEST(Warnings, NameMicroBatchesWithNothingToMix) {
  const char* const words = "has nothing to mix it with";
  EXPECT_THAT(reported({"train.batch_size=8", "train.micro_batches=8", "data.mixup_alpha=0.2"}),
              HasSubstr(words));
  EXPECT_THAT(reported({"train.batch_size=16", "train.micro_batches=8", "data.mixup_alpha=0.2"}),
              Not(HasSubstr(words)));
}

TEST(Warnings, TellThatImagesStayOnTheCpuWhichComputes) {
  const char* const words = "data.resident has no effect on the CPU";
  EXPECT_THAT(reported({"data.resident=true"}), HasSubstr(words));
  EXPECT_THAT(reported({}), Not(HasSubstr(words)));
}

TEST(Warnings, TellThatTheCpuHasNoCudaGraphs) {
  const char* const words = "cuda_graphs has no effect on the CPU";
  EXPECT_THAT(reported({"cuda_graphs=true"}), HasSubstr(words));
  EXPECT_THAT(reported({}), Not(HasSubstr(words)));
}

TEST(Warnings, TellThatTheCpuIsAlwaysDeterministic) {
  const char* const words = "deterministic false has no effect on the CPU";
  EXPECT_THAT(reported({"deterministic=false"}), HasSubstr(words));
  EXPECT_THAT(reported({"deterministic=true"}), Not(HasSubstr(words)));
}

std::string reported_on(const Backend& gpu, const std::vector<std::string>& overrides) {
  const Options options = options_with(overrides);
  PipelineOptions pipeline = pipeline_options(options, {}, {});
  pipeline.stream.device = {&gpu, 0};
  std::string all;
  for (const std::string& warning : warnings(options, {}, pipeline)) all += warning + "\n";
  return all;
}

TEST(Warnings, TellWhatHasNoEffectOnAGpu) {
  const Backend gpu = test::made_up_gpu(), old = test::made_up_old_gpu();
  const std::vector<std::string> direct = {"model.name=mnist_cnn", "model.widths=[]",
                                           "convolution=direct"};
  EXPECT_THAT(reported_on(gpu, direct), HasSubstr("convolution direct has no effect on a GPU\n"));
  EXPECT_THAT(reported(direct), Not(HasSubstr("convolution")));
  EXPECT_THAT(reported_on(gpu, {"parallel.intra_op_threads=4096"}),
              AllOf(HasSubstr("parallel.intra_op_threads has no effect on the kernels of a GPU"),
                    Not(HasSubstr("share"))));
  for (const std::string key : {"conv_precision", "matmul_precision"}) {
    EXPECT_THAT(reported_on(old, {key + "=tf32"}),
                HasSubstr(key + " tf32 has no effect: cuda:0 has no TF32\n"));
    EXPECT_THAT(reported_on(gpu, {key + "=tf32"}), Not(HasSubstr("no effect")));
  }
  EXPECT_THAT(reported_on(old, {}), Not(HasSubstr("no effect")));
}

TEST(Warnings, TellThatABuildWithoutCudaLeavesAllocatedGpusIdle) {
  const Error without(ErrorCode::io, "no GPU can be used: this build has no CUDA",
                      "run ./dev build --cuda");
  EXPECT_EQ(no_gpu_warning(without, 0), "");
  EXPECT_EQ(no_gpu_warning(without, 1),
            "computing on the CPU: no GPU can be used: this build has no CUDA; 1 allocated GPU "
            "stays idle: run ./dev build --cuda, or use CPU nodes");
  EXPECT_THAT(no_gpu_warning(without, 2), HasSubstr("2 allocated GPUs stay idle"));
  const Error unusable(ErrorCode::unsupported, "no driver", "install it");
  EXPECT_EQ(no_gpu_warning(unusable, 0), "computing on the CPU: no driver; install it");
}

TEST(Warnings, TellThatGradientsOfF16AreNotScaled) {
  const auto of_mode = [](const std::string& mode, DType products = DType::f16) {
    const Options options = options_with({"loss_scale.mode=" + mode});
    PipelineOptions pipeline = pipeline_options(options, {}, {});
    pipeline.stream.products = products;
    std::string all;
    for (const std::string& warning : warnings(options, {}, pipeline)) all += warning + "\n";
    return all;
  };
  const char* const words = "precision is 16-mixed without loss scaling";
  EXPECT_THAT(of_mode("none"), HasSubstr(words));
  EXPECT_THAT(of_mode("auto"), Not(HasSubstr(words)));
  EXPECT_THAT(of_mode("none", DType::f32), Not(HasSubstr("without loss scaling")));
}

TEST(Warnings, NameAMeanOfSamplesThatAreNoPixels) {
  const test::TemporaryFolder folder;
  for (const char* split : {"train", "test"})
    test::write_text(folder / (std::string(split) + ".csv"), "a,b\n0.5,1\n0.25,0\n");
  const auto of_csv = [&](const std::string& more) {
    const Options options = parse_options(
        "model: {name: mlp, widths: [8], classes: 2}\ntrain: {batch_size: 2, micro_batches: 1}\n"
        "data: {name: csv, path: " +
            folder.path().string() + more + "}\n",
        "o.yaml");
    return warnings(options, {}, pipeline_options(options, {}, {}));
  };
  EXPECT_THAT(of_csv(", mean: [72], std: [2]"),
              testing::ElementsAre(
                  HasSubstr("no effect: only u8 images are normalised, not samples of f32")));
  EXPECT_THAT(of_csv(""), testing::IsEmpty());
  EXPECT_THAT(of_csv(", mean: []"), testing::IsEmpty());
}

TEST(Warnings, NameValuesThatTrainNothingWell) {
  EXPECT_THAT(reported({"train.lr=0"}), HasSubstr("train.lr is 0"));
  EXPECT_THAT(reported({"train.lr=0", "train.groups=[{parameters: ['*.bias'], lr: 0.1}]"}),
              Not(HasSubstr("train.lr is 0")));
  EXPECT_THAT(
      reported({"train.freeze=['*']"}),
      HasSubstr("train.freeze and train.groups freeze all parameters: the weights will not"));
  EXPECT_THAT(reported({"train.freeze=['*.weight']"}), Not(HasSubstr("will not change")));
  const auto frozen = [](const std::string& parameters) {
    return reported({"train.freeze=['layers.0.*']",
                     "train.groups=[{parameters: ['" + parameters + "'], lr: 0.1}]"});
  };
  EXPECT_THAT(frozen("*.0.bias"), HasSubstr("the group [*.0.bias] of train.groups has no effect: "
                                            "all of its parameters are frozen\n"));
  EXPECT_THAT(frozen("*.bias"), Not(HasSubstr("no effect"))) << "other biases train with it";
  EXPECT_THAT(reported({"model.strict=false"}),
              HasSubstr("model.strict has no effect without model.weights"));
  EXPECT_THAT(
      reported({"train.steps=3", "parallel.aggregation=asynchronous", "parallel.staleness=3"}),
      HasSubstr("parallel.staleness is 3 and the run has 3 steps"));
  EXPECT_THAT(reported({"train.steps=3", "parallel.aggregation=asynchronous"}),
              Not(HasSubstr("staleness")));
  EXPECT_THAT(reported({"data.mean=[72.9]", "data.std=[90.0]"}),
              AllOf(HasSubstr("data.mean is [72.9], but it is applied to pixels from 0 to 1"),
                    HasSubstr("data.std is [90]")));
  EXPECT_THAT(reported({"data.mean=[0.5]", "data.std=[1]"}), Not(HasSubstr("pixels")));
  EXPECT_THAT(reported({"train.optimizer=adamw", "train.lr=0.1"}),
              HasSubstr("train.lr is 0.1; adamw usually takes about 0.001"));
  EXPECT_THAT(reported({"train.optimizer=adamw", "train.lr=0.001"}), Not(HasSubstr("usually")));
  EXPECT_THAT(reported({"train.steps=10", "train.ema_decay=0.99"}),
              HasSubstr("the average after 9 steps has 92 % of the weights after the first step"));
  EXPECT_THAT(reported({"train.steps=10", "train.ema_decay=0.8"}),
              HasSubstr("the average after 9 steps has 17 % of the weights after the first step"));
  EXPECT_THAT(reported({"train.steps=10", "train.ema_decay=0.5"}), Not(HasSubstr("average")));
  EXPECT_THAT(reported({"train.steps=1", "train.ema_decay=0.9"}), Not(HasSubstr("average")));
  EXPECT_THAT(reported({"train.steps=100000"}),
              HasSubstr("train.steps is 100000, but train.epochs 1 makes "));
  EXPECT_THAT(reported({"train.batch_size=10", "train.steps=100", "data.count=200"}),
              HasSubstr("makes 20 steps; for more, raise train.epochs to 5"));
  EXPECT_THAT(reported({"train.schedule=one_cycle", "train.warmup_steps=2"}),
              HasSubstr("train.warmup_steps 2 delays the schedule one_cycle"));
  EXPECT_THAT(reported({"train.schedule=cosine", "train.warmup_steps=2"}),
              Not(HasSubstr("delays")));
  EXPECT_THAT(
      reported({"train.epochs=4", "train.patience=4"}),
      HasSubstr("train.patience is 4, but the run has 4 evaluations: it cannot stop early"));
  EXPECT_THAT(reported({"train.epochs=4", "train.steps=1", "train.patience=3"}),
              HasSubstr("train.patience is 3, but the run has 1 evaluation: "));
  EXPECT_THAT(reported({"train.epochs=4", "train.patience=3"}),
              HasSubstr("train.patience is 3, but the run has 4 evaluations: it cannot stop early"))
      << "the fourth is the last";
  EXPECT_THAT(reported({"train.epochs=4", "train.patience=2"}), Not(HasSubstr("patience")));
  EXPECT_THAT(reported({"train.epochs=4", "train.patience=4", "train.target_accuracy=0.9"}),
              Not(HasSubstr("patience")));
  EXPECT_THAT(reported({"train.batch_size=100", "data.count=150"}),
              HasSubstr("each epoch drops 50 of 150 training samples"));
  EXPECT_THAT(reported({"train.batch_size=100", "data.count=200"}), Not(HasSubstr("leaves out")));
  EXPECT_THAT(reported({"data.workers=4096"}), HasSubstr("data.workers is 4096, more than the "));
  const std::vector<std::string> one_sample = {"model.name=mnist_cnn", "model.widths=[]",
                                               "train.batch_size=4", "train.micro_batches=4"};
  EXPECT_THAT(reported(one_sample), HasSubstr("batch norm averages over a single sample"));
  EXPECT_THAT(reported({"train.batch_size=4", "train.micro_batches=4"}),
              Not(HasSubstr("batch norm")));
  const auto norms = [](int batch, int parts) {
    return reported({"model.name=mnist_cnn", "model.widths=[]",
                     fmt::format("train.batch_size={}", batch),
                     fmt::format("train.micro_batches={}", parts)});
  };
  EXPECT_THAT(norms(8, 4), HasSubstr("batch norm averages over 2 samples (train.batch_size 8 / "
                                     "train.micro_batches 4); with train.micro_batches=1 over 8, "
                                     "as in PyTorch"));
  EXPECT_THAT(reported({"model.name=mnist_cnn", "model.widths=[]", "parallel.data=4",
                        "train.batch_size=8", "train.micro_batches=4"}),
              HasSubstr("the share of a replica, as in DDP without SyncBatchNorm"));
  for (const auto& [batch, parts] : {std::pair(8, 1), std::pair(32, 4)})
    EXPECT_THAT(norms(batch, parts), Not(HasSubstr("batch norm"))) << batch;
}

TEST(Warnings, TellOfOutputsThatAreNoClass) {
  const std::string graph = std::string(TROUPE_SOURCE_DIR) + "/tests/golden/graphs/resnet18.pt2";
  const auto of_classes = [&](int classes) {
    return reported({"model={file: " + graph + "}", "data.shape=[3, 20, 24]",
                     fmt::format("data.classes={}", classes)});
  };
  EXPECT_THAT(of_classes(7),
              HasSubstr("resnet18.pt2 has 10 outputs, but the data set has 7 classes\n"));
  EXPECT_THAT(of_classes(10), Not(HasSubstr("outputs")));
}

TEST(Warnings, TellThatACheckpointIsOfAnotherKindOfProcessor) {
  const auto of_processor = [](const std::string& processor) {
    StartingPoint start;
    start.processor = processor;
    std::string all;
    for (const std::string& warning : warnings_of({}, 1, start)) all += warning;
    return all;
  };
  EXPECT_THAT(
      of_processor("a kind of its own"),
      AllOf(HasSubstr("written on another device or type of processor, so the weights may differ"),
            HasSubstr("checkpoint: a kind of its own; this run: ")));
  const auto none = Not(HasSubstr("type of processor"));
  EXPECT_THAT(of_processor(backend(Device::cpu()).fingerprint()), none);
  EXPECT_THAT(of_processor(""), none);
}

TEST(Warnings, TellWhatCannotBeSharedEvenly) {
  const std::vector<std::string> eight = {"parallel.pipeline=2", "parallel.data=4",
                                          "train.micro_batches=6"};
  EXPECT_THAT(reported(eight, 3),
              AllOf(HasSubstr("8 stages over 3 processes: 3 in some, 2 in others; "
                              "4 processes would have the same number each\n"),
                    HasSubstr("6 micro-batches over 4 replicas: 2 in some, 1 in "
                              "others; train.micro_batches=8 would")));
  EXPECT_THAT(reported({"parallel.pipeline=2", "parallel.data=4", "train.micro_batches=8"}, 4),
              Not(HasSubstr("in others")));
}

TEST(Warnings, TellOfStagesThatHaveOneMicroBatch) {
  const auto take_turns = HasSubstr("the 2 stages take turns, since each replica has one");
  EXPECT_THAT(reported({"parallel.pipeline=2", "train.micro_batches=1"}), take_turns);
  EXPECT_THAT(reported({"parallel.pipeline=2", "parallel.data=4", "train.micro_batches=4"}),
              take_turns);
  EXPECT_THAT(reported({"parallel.pipeline=2", "train.micro_batches=2"}), Not(take_turns));
  EXPECT_THAT(reported({"parallel.pipeline=1", "train.micro_batches=1"}), Not(take_turns));
}

TEST(Warnings, TellOfBatchesAndMicroBatchesOfUnequalSize) {
  EXPECT_THAT(reported({"train.batch_size=50", "train.micro_batches=4"}),
              AllOf(HasSubstr("train.batch_size 50 in 4 micro-batches: 13 samples in some, 12 in "
                              "others; train.batch_size=52 would give each the same number"),
                    Not(HasSubstr("last batch"))));
  EXPECT_THAT(reported({"train.batch_size=64", "data.drop_last=false"}),
              HasSubstr("the last batch of an epoch has 24 of 64 samples"));
  EXPECT_THAT(reported({"train.batch_size=64"}), Not(HasSubstr("last batch")));
  const auto norms = [](int samples) {
    return reported({"model.name=mnist_cnn", "model.widths=[]", "train.batch_size=64",
                     "train.micro_batches=4", "data.drop_last=false",
                     fmt::format("data.count={}", samples)});
  };
  for (const int few : {1, 4, 7})
    EXPECT_THAT(norms(128 + few),
                HasSubstr(fmt::format("{} of 64 samples, where batch norm", few)));
  EXPECT_THAT(norms(128 + 8), HasSubstr("8 of 64 samples; data.drop_last"));
}

TEST(Warnings, TellOfAScheduleThatIsTooShortToRise) {
  const auto of_batches = [](int size, int warmup) {
    return reported({"train.schedule=one_cycle", "train.lr=0.25", "train.epochs=1",
                     fmt::format("train.batch_size={}", size),
                     fmt::format("train.warmup_steps={}", warmup)});
  };
  EXPECT_THAT(of_batches(200, 0), HasSubstr("does not rise in 3 steps: it falls from 0.25"));
  EXPECT_THAT(of_batches(150, 0), Not(HasSubstr("one_cycle"))) << "of 4 steps 1.2 rise";
  EXPECT_THAT(of_batches(60, 7), HasSubstr("does not rise in 3 steps after the warm-up: it falls"));
}

}  // namespace
}  // namespace troupe
