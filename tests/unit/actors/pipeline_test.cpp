#include "actors/pipeline.h"

#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "actors/data/datasets.h"
#include "actors/loss.h"
#include "delayed_device.h"
#include "ops/models/models.h"

namespace troupe {
namespace {

using ::testing::HasSubstr;

PipelineOptions small() {
  return {
      .model = Mlp{.widths = {3}, .classes = 4},
      .seed = 7,
      .replicas = 2,
      .data = {.dataset = open_dataset(Synthetic{.shape = {1, 4, 4}, .classes = 4, .count = 70})},
      .batch_size = 32,
      .micro_batches = 4,
      .epochs = 5,
      .max_steps = 7,
      .first_step = 3,
      .rate = {.schedule = LearningRateSchedule::cosine}};
}

TEST(Pipeline, TellsItsLoadersWhatItWasTold) {
  const LoaderOptions loader = loader_options(small(), 1);
  EXPECT_EQ(loader.replica, 1u);
  EXPECT_EQ(loader.sampler.seed, 7u);
  EXPECT_EQ(loader.transform.seed, 7u);
  EXPECT_EQ(loader.sampler.samples, 70);
  EXPECT_EQ(loader.sampler.replicas, 2);
  EXPECT_EQ(loader.sampler.micro_batches, 4);
  EXPECT_EQ(loader.timeline.steps, 7u);
  EXPECT_EQ(loader.timeline.steps_per_epoch, 2u);
  EXPECT_EQ(loader.timeline.first, 3u);
}

// Indices of an embedding, which another model may begin with, are checked in the CPU's memory.
TEST(Pipeline, SendsSamplesOnTheDeviceWhereTheModelBeginsWithAConvolution) {
  PipelineOptions options = small();
  options.model = MnistCnn{.classes = 4};
  EXPECT_EQ(samples_device(options), Device::cpu());
  options.stream.device = testing::delayed_device();
  EXPECT_EQ(samples_device(options), testing::delayed_device());
  options.model = Mlp{.widths = {3}, .classes = 4};
  EXPECT_EQ(samples_device(options), Device::cpu());
  options.data.resident = true;
  EXPECT_EQ(samples_device(options), testing::delayed_device());
}

TEST(Pipeline, KeepsItsRatesWhereItEndsEarlier) {
  PipelineOptions options = small();
  options.rate.total_steps = options.rate.steps_per_epoch = 99;  // worked out, whatever they were
  EXPECT_EQ(learning_rate_options(options).total_steps, 10);
  EXPECT_EQ(learning_rate_options(options).steps_per_epoch, 2);
}

TEST(Pipeline, RefusesMoreStepsThanCanBeCounted) {
  PipelineOptions options = small();
  options.max_steps = 0;
  options.epochs = std::int64_t{1} << 32;
  EXPECT_THROW(timeline_of(options), Error);
}

TEST(Pipeline, RefusesToTrainNoEpoch) {
  for (const std::int64_t epochs : {0, -5}) {
    PipelineOptions options = small();
    options.epochs = epochs;
    try {
      build_pipeline(options);
      FAIL() << "it was built";
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "`epochs` is " + std::to_string(epochs));
    }
  }
}

struct Twins {
  static constexpr std::string_view name = "twins";
  Model make(const SampleSpec& samples) const {
    Model model = Mlp{}.make(samples);
    model.blocks.push_back(std::move(Mlp{}.make(samples).blocks.back()));
    return model;
  }
};

/// Samples to train with, none to test with.
class Untested final : public SampleReader {
 public:
  std::string_view name() const override { return "untested"; }
  SampleSpec samples() const override { return {.shape = {1, 4, 4}, .classes = 4}; }
  std::int64_t count(Split split) const override { return split == Split::train ? 70 : 0; }
  void read(Split, std::int64_t, Tensor, Tensor) const override {}
};

TEST(Pipeline, RefusesToEvaluateWithoutTestSamples) {
  PipelineOptions options = small();
  options.data.dataset = std::make_shared<Untested>();
  options.evaluates = false;
  EXPECT_NO_THROW(build_pipeline(options));
  options.evaluates = true;
  try {
    build_pipeline(options);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "`evaluates` is true, but untested has no test samples");
  }
}

TEST(Pipeline, RefusesAModelWithTwoTensorsOfOneName) {
  PipelineOptions options = small();
  options.model = Twins{};
  options.partition = {1, SIZE_MAX};
  try {
    build_pipeline(options);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("two tensors of the model are called "));
  }
}

TEST(Pipeline, RefusesAParameterGroupThatTheModelLacks) {
  PipelineOptions options = small();
  options.optimizer =
      options.optimizer.with_groups({{.parameters = {"*.bais"}, .optimizer = options.optimizer}});
  try {
    build_pipeline(options);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("no parameter of the model matches *.bais"));
    EXPECT_THAT(error.remedy(), HasSubstr(".bias"));
  }
}

TEST(Pipeline, RefusesSamplesOfMoreClassesThanTheModelHas) {
  PipelineOptions options = small();
  options.model = Mlp{.classes = 3};
  try {
    build_pipeline(options);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("mlp has 3 outputs, but the largest class in the data set is 3"));
  }
}

TEST(Pipeline, GivesAStageTheBlocksOfItsPartition) {
  PipelineOptions options = small();
  const std::size_t count = model_of(options).blocks.size();
  const auto ends = [&](std::size_t stage) {
    const std::vector<BlockRange> ranges = blocks_of(options, stage);
    EXPECT_EQ(ranges.size(), 1u);
    return std::pair(ranges.front().first, ranges.front().last);
  };
  EXPECT_EQ(ends(0), std::pair(std::size_t{0}, count)) << "one stage has all of them";
  options.partition = {1, count - 1};
  EXPECT_EQ(ends(0), std::pair(std::size_t{0}, std::size_t{1}));
  EXPECT_EQ(ends(1), std::pair(std::size_t{1}, count));
}

TEST(Pipeline, RefusesAPartitionThatDoesNotHoldEachBlockOnce) {
  PipelineOptions options = small();
  const std::size_t count = model_of(options).blocks.size();
  for (const auto& partition : std::vector<std::vector<std::size_t>>{{1, count - 2},
                                                                     {1, count},
                                                                     {0, count},
                                                                     {count, SIZE_MAX},
                                                                     {count + 1, SIZE_MAX},
                                                                     {SIZE_MAX, count + 1},
                                                                     {SIZE_MAX, 1, SIZE_MAX},
                                                                     {}}) {
    options.partition = partition;
    EXPECT_THROW(build_pipeline(options), Error) << fmt::format("{}", fmt::join(partition, ", "));
  }
  options.partition = {1, SIZE_MAX};
  EXPECT_NO_THROW(build_pipeline(options));
}

TEST(Pipeline, RefusesToRunAStageOfSeveralBlockRanges) {
  const PipelineOptions options = small();
  Stage stage({.program = network_program({.model = options.model,
                                           .samples = options.data.dataset.samples(),
                                           .blocks = {{0, 1}, {2, 3}}}),
               .stage = 1});
  try {
    (void)stage.state();
    FAIL() << "it has a state";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_THAT(error.what(), HasSubstr("stage 1 has 2 ranges of blocks; give each stage one"));
  }
}

/// Connects a loader, two stages of these blocks and a loss by hand. Returns the refusal, if any.
std::string refusal_of(BlockRange front_blocks, BlockRange back_blocks) {
  const PipelineOptions options = small();
  const auto stage = [&](BlockRange blocks) {
    return StageOptions{.program = network_program({.model = options.model,
                                                    .samples = options.data.dataset.samples(),
                                                    .blocks = {blocks}})};
  };
  Graph graph;
  const auto loader = graph.add<Loader>("loader", loader_options(options, 0));
  const auto front = graph.add<Stage>("front", stage(front_blocks));
  const auto back = graph.add<Stage>("back", stage(back_blocks));
  const auto loss = graph.add<Loss>("loss");
  try {
    graph.connect(loader, &Loader::samples, front, &Stage::input);
    graph.connect(front, &Stage::output, back, &Stage::input);
    graph.connect(back, &Stage::output, loss, &Loss::logits);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_graph);
    return error.message();
  }
}

TEST(Pipeline, RefusesStagesConnectedByHandThatMissOrRepeatBlocks) {
  const std::size_t blocks = model_of(small()).blocks.size();
  ASSERT_EQ(blocks, 3u);
  EXPECT_EQ(refusal_of({0, 1}, {.first = 1}), "");
  EXPECT_EQ(refusal_of({0, 1}, {.first = 2}),
            "edge front.output → back.input: block 1 is missing between them");
  EXPECT_EQ(refusal_of({.last = 2}, {.first = 0}),
            "edge front.output → back.input: blocks 0-1 are on both sides");
  EXPECT_EQ(refusal_of({1, 2}, {.first = 2}),
            "edge loader.samples → front.input: block 0 is missing between them");
  EXPECT_EQ(refusal_of({0, 1}, {1, 2}),
            "edge back.output → loss.logits: block 2 is missing between them");
}

TEST(Pipeline, RefusesMoreProcessesThanItHasStages) {
  PipelineOptions options = small();
  options.replicas = 1;
  options.processes = static_cast<std::uint32_t>(options.partition.size()) + 1;
  try {
    build_pipeline(options);
    FAIL() << "it was built";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(" × 1 replica; start "));
  }
}

}  // namespace
}  // namespace troupe
