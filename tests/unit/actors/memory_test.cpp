// What a run holds is bounded by slots, whatever is slow.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <future>
#include <map>
#include <string>
#include <thread>

#include "actors/memory_bound.h"
#include "actors/pipeline_bytes.h"
#include "ops/backend.h"
#include "ops/models/models.h"
#include "ops/nn/network.h"
#include "ops/planned_device.h"
#include "slow_program.h"
#include "training_run.h"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using ::testing::Key;
using testing::pipeline_of;
using testing::SlowProgram;
using testing::test_device;
using testing::train;
using testing::TrainingRun;
using ::testing::UnorderedElementsAre;

TrainingRun small(ScheduleKind schedule) {
  return {.model = "wide_resnet",
          .partition = {3, 4, 5},
          .micro_batches = 8,
          .batch_size = 32,
          .samples = 96,
          .steps = 3,
          .schedule = schedule,
          .workers = 1,
          .scheduling = Scheduling::threads,
          .threads = 3};
}

std::size_t bound_of(const TrainingRun& run) {
  PipelineOptions pipeline = pipeline_of(run);
  pipeline.writer = CheckpointWriterOptions{};
  pipeline.block_costs = measure_blocks(pipeline.model, pipeline.data.dataset.samples(), run.dtype,
                                        pipeline.stream, 4, 1);
  const Dataset& data = pipeline.data.dataset;
  const auto samples = data.count(Split::train) + data.count(Split::test);
  const auto bytes = static_cast<std::size_t>(samples * data.samples().shape.element_count());
  const MemoryBound bound = memory_bound(pipeline, build_pipeline(pipeline), bytes);
  const auto place =
      test_device() == Device::cpu() ? MemoryBound::Place::cpu : MemoryBound::Place::device;
  std::size_t total = 0;  // of what the allocator sees
  for (const auto& part : bound.parts)
    if (part.place == place && part.what != "kernels' scratch" &&
        part.what != "workspaces of kernels")
      total += part.bytes;
  EXPECT_LE(total, bound.total(place));
  return total;
}

void expect_bounded(TrainingRun run, std::size_t slow) {
  SCOPED_TRACE(fmt::format("stage {} is slow", slow));
  const std::size_t bound = bound_of(run);
  run.around = [slow](std::size_t stage, std::unique_ptr<StageProgram> inner) {
    if (stage == slow)
      inner = std::make_unique<SlowProgram>(std::move(inner), SlowProgram::Pauses{2ms, 2ms});
    return inner;
  };
  auto& allocator = CachingAllocator::of(test_device());
  const std::size_t before = allocator.counters().in_use_bytes;
  allocator.reset_peak();
  const auto result = train(run);
  const std::size_t peak = allocator.counters().peak_bytes - before;
  EXPECT_LE(peak, bound);
  EXPECT_GE(peak, bound * 3 / 10) << "the bound is loose: " << bound << " for " << peak;
  for (const ActorReport& actor : result.report.actors)
    EXPECT_LE(actor.peak_mailbox, actor.mailbox_bound) << actor.name;
}

TEST(MemoryThreadedActors, StaysWithinTheBoundWhicheverStageIsSlow) {
  for (const auto& [name, schedule] : schedule_names)
    for (const std::size_t slow : {0, 1, 2}) {
      SCOPED_TRACE(name);
      expect_bounded(small(schedule), slow);
    }
}

TEST(MemoryThreadedActors, StaysWithinTheBoundWithTwoStateTensors) {
  TrainingRun run = small(ScheduleKind::one_forward_one_backward);
  run.adjust = testing::use_adamw;
  for (const std::size_t slow : {0, 2}) expect_bounded(run, slow);
}

/// Its gradients are scaled in copies.
struct OwnAdamW : AdamW {
  static constexpr std::string_view name = "own_adamw";
};

TEST(MemoryThreadedActors, StaysWithinTheBoundWithScaledLosses) {
  for (const ScheduleKind schedule :
       {ScheduleKind::one_forward_one_backward, ScheduleKind::zero_bubble_h2})
    for (const Optimizer& optimizer : {Optimizer(AdamW{}), Optimizer(OwnAdamW{})}) {
      TrainingRun run = small(schedule);
      run.adjust = [&](PipelineOptions& pipeline) {
        pipeline.loss_scale.mode = LossScaling::dynamic;
        pipeline.optimizer = optimizer.with_clip_value(1);
      };
      for (const std::size_t slow : {0, 2}) expect_bounded(run, slow);
    }
}

TEST(MemoryThreadedActors, StaysWithinTheBoundInMixedPrecision) {
  if (!backend({}).multiplies(DType::bf16)) GTEST_SKIP() << "no instructions for bf16 here";
  TrainingRun run = small(ScheduleKind::one_forward_one_backward);
  run.adjust = [](PipelineOptions& pipeline) { pipeline.stream.products = DType::bf16; };
  for (const std::size_t slow : {0, 1, 2}) expect_bounded(run, slow);
}

/// The bytes of a part of the bound.
std::size_t part_of(const PipelineOptions& pipeline, std::string_view what) {
  const auto parts = memory_bound(pipeline, build_pipeline(pipeline), 0).parts;
  const auto part = std::ranges::find(parts, what, &MemoryBound::Part::what);
  EXPECT_NE(part, parts.end()) << what;
  return part == parts.end() ? 0 : part->bytes;
}

TEST(Memory, CountsTheStateTensorsOfTheOptimizerAndItsCopiesOfGradients) {
  const auto state = [](const Optimizer& optimizer, LossScaling scaling = LossScaling::none) {
    PipelineOptions pipeline = pipeline_of({.partition = {4}});
    pipeline.optimizer = optimizer;
    pipeline.loss_scale.mode = scaling;
    return part_of(pipeline, "stage 0 state");
  };
  const std::size_t one = state(Sgd{}) / 2;  // the committed version and the next
  EXPECT_EQ(state(Sgd{.momentum = 0.9}), 4 * one);
  EXPECT_EQ(state(AdamW{}), 6 * one);
  EXPECT_EQ(state(Optimizer(AdamW{}).with_clip_value(1), LossScaling::dynamic), 6 * one);
  const std::size_t clipped = state(Optimizer(OwnAdamW{}).with_clip_value(1));
  EXPECT_GT(clipped, 6 * one);
  EXPECT_EQ(state(Optimizer(OwnAdamW{}).with_clip_norm(1)), clipped);
  EXPECT_EQ(state(OwnAdamW{}, LossScaling::dynamic), clipped);
  EXPECT_GT(state(Optimizer(OwnAdamW{}).with_clip_value(1), LossScaling::dynamic), clipped);
}

TEST(Memory, CountsWhatTheLayersOfEachReplicaKeepBetweenPasses) {
  PipelineOptions pipeline = pipeline_of({.partition = {1, 3}, .replicas = 2});
  pipeline.block_costs.resize(4);
  const std::size_t without = part_of(pipeline, "stage 1 state");
  pipeline.block_costs[1].kept_bytes = 1000;
  pipeline.block_costs[3].kept_bytes = 600;
  EXPECT_EQ(part_of(pipeline, "stage 1 state") - without, 2 * 2000u);
}

// Checkpoints are read into the CPU's memory. Random weights of a device are made there.
TEST(Memory, CountsTheStatesThatARunBeginsWith) {
  PipelineOptions pipeline = pipeline_of({.partition = {1, 3}, .replicas = 2});
  pipeline.stream.device = Device::cpu();
  pipeline.block_costs.resize(4);
  pipeline.block_costs[0].state_bytes = 400;
  pipeline.block_costs[2].state_bytes = 4000;
  const auto start = [&] {
    std::size_t bytes = 0;
    for (const auto& part : memory_bound(pipeline, build_pipeline(pipeline), 0).parts)
      if (part.what == "starting state" && part.place == MemoryBound::Place::cpu)
        bytes += part.bytes;
    return bytes;
  };
  EXPECT_EQ(start(), 0u) << "the first one of the stages' own";
  pipeline.initial.resize(2);
  EXPECT_EQ(start(), 2 * 5500u) << "with momentum, for both replicas";
  pipeline.stream.device = planned_device({.title = "a GPU", .workspace_bytes = {}});
  EXPECT_EQ(start(), 2 * 5500u);
  pipeline.initial.clear();
  EXPECT_EQ(start(), 2 * 5500u) << "as a run that is resumed";
  pipeline.replicas = 3;
  EXPECT_EQ(start(), 3 * 5500u) << "each replica makes random weights";
}

TEST(MemoryThreadedActors, StaysWithinTheBoundInManyGradientBuckets) {
  TrainingRun run = small(ScheduleKind::one_forward_one_backward);
  run.adjust = [](PipelineOptions& pipeline) { pipeline.bucket_cap_bytes = 1; };
  for (const std::size_t slow : {0, 1, 2}) expect_bounded(run, slow);
}

TEST(MemoryThreadedActors, StaysWithinTheBoundWhileSumsAreOnTheirWay) {
  TrainingRun run = small(ScheduleKind::one_forward_one_backward);
  run.steps = 6;
  run.adjust = [](PipelineOptions& pipeline) {
    pipeline.staleness = 3;
    pipeline.bucket_cap_bytes = 10000;
  };
  for (const std::size_t slow : {0, 1, 2}) expect_bounded(run, slow);
}

TEST(Profile, TellsTheHalvesOfABackwardApart) {
  const PipelineOptions options = pipeline_of(small(ScheduleKind::gpipe));
  for (const BlockCosts& block :
       measure_blocks(options.model, options.data.dataset.samples(), DType::f32, {}, 4, 8)) {
    SCOPED_TRACE(block.name);
    EXPECT_GT(block.input_gradient.count(), 0);
    EXPECT_LE(block.input_gradient, block.backward);
    // A residual block keeps two activations and three gradients, rounded up to size classes: those
    // of what its convolutions made, and what it was given. Those of its batch norms do not wait
    // for the second half.
    if (block.name.starts_with("block")) {
      constexpr std::size_t vectors = std::size_t{32} * 256;  // one value a channel
      EXPECT_GT(block.deferred_bytes, 2 * block.output_bytes);
      EXPECT_LT(block.deferred_bytes, 6 * block.output_bytes + vectors);
    }
  }
}

TEST(Profile, TellsThatBlocksBeforeTheFirstThatIsTrainedKeepNothingForBackward) {
  const PipelineOptions options = pipeline_of(small(ScheduleKind::gpipe));
  const auto profile = [&](const Freezes& freezes) {
    return measure_blocks(options.model, options.data.dataset.samples(), DType::f32, {}, 4, 2,
                          freezes);
  };
  const auto trained = profile({});
  const auto frozen = profile([](std::string_view name) { return !name.starts_with("fc."); });
  for (std::size_t b = 0; b < trained.size(); ++b) {
    if (!trained[b].name.starts_with("block")) continue;
    SCOPED_TRACE(trained[b].name);
    const std::size_t little = 2 * frozen[b].output_bytes;  // the output itself counts
    EXPECT_GT(trained[b].saved_bytes, little);
    EXPECT_LT(frozen[b].saved_bytes, little);
  }
}

TEST(Profile, TellsNoLessThanAStageHoldsBetweenTheHalves) {
  const PipelineOptions options = pipeline_of(small(ScheduleKind::gpipe));
  const auto profile =
      measure_blocks(options.model, options.data.dataset.samples(), DType::f32, {}, 4, 2);
  using Range = std::pair<std::size_t, std::size_t>;
  for (const auto& [first, last] : {Range{3, 7}, {4, 7}, {7, 11}, {1, 11}}) {
    SCOPED_TRACE(fmt::format("blocks {} to {}", first, last));
    Network before(model_of(options), 0, first, DType::f32, {});
    before.use(initial_state(before.spec(), DType::f32, 0));
    Network stage(model_of(options), first, last, DType::f32, {});
    stage.use(initial_state(stage.spec(), DType::f32, 0));
    const Tensor x = before.evaluate(Tensor::zeros({4, 1, 28, 28}));
    std::size_t held = 0, reported = 0;
    for (int repetition = 0; repetition < 2;
         ++repetition) {  // the first prepares kernels, which stay
      const std::size_t in_use = CachingAllocator::of({}).counters().in_use_bytes;
      const auto pass = stage.forward(x, {}, true);
      const Tensor y = pass->result();
      const Tensor grad = Tensor::zeros(y.shape(), DType::f32, y.layout());
      const Tensor dx = stage.backward_inputs(*pass, grad);
      held = CachingAllocator::of({}).counters().in_use_bytes - in_use - dx.bytes();
    }
    for (std::size_t block = first; block < last; ++block)
      reported += profile[block].deferred_bytes;
    EXPECT_LE(held, reported);
  }
}

// Weights in the order of a kernel, for example.
TEST(Profile, TellsWhatLayersKeepFromOnePassToTheNext) {
  const PipelineOptions options = pipeline_of(small(ScheduleKind::gpipe));
  std::size_t reported = 0;
  for (const BlockCosts& block :
       measure_blocks(options.model, options.data.dataset.samples(), DType::f32, {}, 4, 2))
    reported += block.kept_bytes;
  Network model(model_of(options), 0, model_of(options).blocks.size(), DType::f32, {});
  model.use(initial_state(model.spec(), DType::f32, 0));
  const std::size_t before = CachingAllocator::of({}).counters().in_use_bytes;
  {
    const auto pass = model.forward(Tensor::zeros({4, 1, 28, 28}), {}, false);
    const Tensor y = pass->result();
    (void)model.backward(*pass, Tensor::zeros(y.shape(), DType::f32, y.layout()));
  }
  EXPECT_EQ(CachingAllocator::of({}).counters().in_use_bytes - before, reported);
  EXPECT_GT(reported, 0u);
}

TEST(Memory, CountsTheWorkingMemoryOfKernels) {
  const TrainingRun run = small(ScheduleKind::gpipe);
  PipelineOptions pipeline = pipeline_of(run);
  pipeline.block_costs =
      measure_blocks(pipeline.model, pipeline.data.dataset.samples(), run.dtype, {}, 4, 1);
  (void)backend(Device::cpu()).take_scratch(0);
  Network model(model_of(pipeline), 0, pipeline.block_costs.size(), DType::f32, {});
  model.use(initial_state(model.spec(), DType::f32, 0));
  const auto pass = model.forward(Tensor::zeros({4, 1, 28, 28}), {}, false);
  const Tensor y = pass->result();
  (void)model.backward(*pass, Tensor::zeros(y.shape(), DType::f32, y.layout()));
  const std::size_t borrowed = *backend(Device::cpu()).take_scratch(0).rbegin();
  ASSERT_GT(borrowed, 0u);
  EXPECT_GE(part_of(pipeline, "kernels' scratch"), borrowed);
}

TEST(Memory, CountsDeferredWeightGradientsAndTheOneAtWork) {
  const auto stage = [](ScheduleKind kind) {
    TrainingRun run = small(kind);
    PipelineOptions pipeline = pipeline_of(run);
    static const auto profile =
        measure_blocks(pipeline.model, pipeline.data.dataset.samples(), run.dtype, {}, 4, 2);
    pipeline.block_costs = profile;
    return std::pair{part_of(pipeline, "stage 1 activations"), stage_bytes(pipeline, 1).deferred};
  };
  const auto [eager, deferred] = stage(ScheduleKind::eager_one_forward_one_backward);
  EXPECT_GT(deferred, 0u);
  // It may owe two; blocks may be a quarter larger than what is asked for.
  EXPECT_NEAR(static_cast<double>(stage(ScheduleKind::zero_bubble_h2).first - eager),
              1.25 * 3 * static_cast<double>(deferred), 1);
}

// A data set is read while the model is measured: its memory is not the model's.
TEST(Memory, IsTheModelsAloneWhereAnotherThreadTakesSomeMeanwhile) {
  const PipelineOptions options = pipeline_of(small(ScheduleKind::gpipe));
  const auto saved = [&] {
    std::vector<std::size_t> bytes;
    for (const auto& block :
         measure_blocks(options.model, options.data.dataset.samples(), DType::f32, {}, 4, 7))
      bytes.push_back(block.saved_bytes);
    return bytes;
  };
  const auto quiet = saved();
  for (int round = 0; round < 20; ++round) {
    std::promise<void> measured;
    std::thread reader([round, done = measured.get_future()] {
      std::this_thread::sleep_for(round * 1ms);
      const Tensor images = Tensor::zeros({std::int64_t{8} << 20}, DType::u8);
      done.wait();
    });
    EXPECT_EQ(saved(), quiet);
    measured.set_value();
    reader.join();
  }
}

TEST(Memory, CountsTheScratchOfKernels) {
  PipelineOptions pipeline = pipeline_of(small(ScheduleKind::gpipe));
  pipeline.block_costs =
      measure_blocks(pipeline.model, pipeline.data.dataset.samples(), DType::f32, {}, 4, 1);
  const std::size_t before = part_of(pipeline, "kernels' scratch");
  pipeline.block_costs[0].scratch_sizes.insert(pipeline.block_costs[0].scratch_bytes() +
                                               (std::size_t{1} << 30));
  EXPECT_GE(part_of(pipeline, "kernels' scratch"), before + 3 * (std::size_t{1} << 30));
}

TEST(Memory, CountsEachSlotOfTheEdges) {
  const PipelineOptions pipeline = pipeline_of({.partition = {2, 2}});
  const Graph graph = build_pipeline(pipeline);
  std::size_t slots = 0;
  for (const auto& edge : graph.edges()) slots += edge.options.slots * edge.options.slot_bytes;
  const MemoryBound bound = memory_bound(pipeline, graph, 0);
  const auto edges = std::ranges::find(bound.parts, "edges", &MemoryBound::Part::what);
  ASSERT_NE(edges, bound.parts.end());
  EXPECT_EQ(edges->bytes, slots + slots / 4) << "blocks may be a quarter larger";
  EXPECT_GT(slots, stage_bytes(pipeline, 0).output);
}

TEST(Memory, IsOfTheDeviceForWhatComputesThereAndOfTheCpuForTheRest) {
  using Place = MemoryBound::Place;
  PipelineOptions pipeline = pipeline_of({.partition = {2, 2}});
  pipeline.writer = CheckpointWriterOptions{};
  pipeline.block_costs =
      measure_blocks(pipeline.model, pipeline.data.dataset.samples(), DType::f32, {}, 4, 1);
  EXPECT_EQ(memory_bound(pipeline, build_pipeline(pipeline), 1000).total(Place::device), 0u);
  pipeline.stream.device = planned_device({.title = "a GPU", .workspace_bytes = {}});
  for (BlockCosts& costs : pipeline.block_costs) costs.kept_bytes = 0;
  const MemoryBound bound = memory_bound(pipeline, build_pipeline(pipeline), 1000);
  std::map<std::string, std::size_t> here, there;
  for (const auto& part : bound.parts)
    (part.place == Place::cpu ? here : there)[part.what] += part.bytes;
  EXPECT_THAT(there, UnorderedElementsAre(
                         Key("edges"), Key("workspaces of kernels"), Key("stage 0 activations"),
                         Key("stage 0 state"), Key("reducer 0"), Key("stage 1 activations"),
                         Key("stage 1 state"), Key("reducer 1"), Key("samples"), Key("loss")));
  EXPECT_THAT(here, UnorderedElementsAre(Key("data set"), Key("loader, prepared ahead"),
                                         Key("edges"), Key("starting state"),
                                         Key("checkpoint, being written"), Key("pinned memory")));
  EXPECT_EQ(there["loss"], 2 * sizeof(std::int64_t) * 5 / 4) << "of a micro-batch of two samples";
  // A checkpoint is copied to the CPU: one of the three versions of each stage.
  EXPECT_NEAR(static_cast<double>(here["checkpoint, being written"]),
              static_cast<double>(there["stage 0 state"] + there["stage 1 state"]) / 3, 8);
  // Each slot of a loader needs a block of pinned memory to be copied through.
  EXPECT_GE(here["pinned memory"], here["edges"]);
}

TEST(Memory, HoldsImagesForADeviceAsBytesUnlessTheyChangeAsNumbers) {
  using Place = MemoryBound::Place;
  PipelineOptions pipeline = pipeline_of({.partition = {2, 2}});
  pipeline.block_costs.resize(4);
  pipeline.stream.device = planned_device({.title = "a GPU", .workspace_bytes = {}});
  const std::size_t pixels = std::size_t{8} * 8;
  const auto part = [&](std::string_view what, Place place) {
    for (const auto& one : memory_bound(pipeline, build_pipeline(pipeline), 0).parts)
      if (one.what == what && one.place == place) return one.bytes * 4 / 5;
    return std::size_t{0};
  };
  const std::size_t micro_batch = 2, targets = micro_batch * sizeof(std::int64_t);
  const std::size_t in_flight = schedule_of(pipeline, 0).credits + 1;
  EXPECT_EQ(part("loader, prepared ahead", Place::cpu), 4 * (micro_batch * pixels + targets));
  // What they are made of is in the slots of the edge.
  EXPECT_EQ(part("samples", Place::device), micro_batch * pixels * in_flight * sizeof(float));
  pipeline.data.augment.push_back(Augment::random_erasing);
  EXPECT_EQ(part("loader, prepared ahead", Place::cpu),
            4 * (micro_batch * pixels * sizeof(float) + targets));
  EXPECT_EQ(part("samples", Place::device), micro_batch * pixels * in_flight * sizeof(float));
  pipeline.model = Mlp{.widths = {3, 3}};
  EXPECT_EQ(part("samples", Place::device), micro_batch * pixels * (in_flight * sizeof(float) + 1))
      << "test samples are bytes that the stage copies";
}

TEST(Memory, CountsAWorkspaceForEachStageOfADevice) {
  PipelineOptions pipeline = pipeline_of({.partition = {2, 2}});
  pipeline.block_costs.resize(4);
  pipeline.block_costs[0].scratch_sizes = {400};
  pipeline.block_costs[1].scratch_sizes = {1000};
  pipeline.block_costs[3].scratch_sizes = {80};
  pipeline.stream.device = planned_device({.title = "a GPU", .workspace_bytes = {}});
  EXPECT_EQ(part_of(pipeline, "workspaces of kernels"), 1080u + 1080u / 4);
}

// A graph keeps a block of each size, which serves for no other.
TEST(Memory, CountsWorkspacesOfEachSizeOnceForEachGraphOfADevice) {
  PipelineOptions pipeline = pipeline_of({.partition = {4}, .micro_batches = 1});
  pipeline.cuda_graphs = true;
  pipeline.stream.device = planned_device({.title = "a GPU", .workspace_bytes = {}});
  pipeline.block_costs.resize(4);
  const auto graphs = [&] { return part_of(pipeline, "stage 0 CUDA graphs"); };
  const std::size_t without = graphs();
  pipeline.block_costs[0].scratch_sizes = {400, 1000};
  pipeline.block_costs[2].scratch_sizes = {80, 1000};
  // Of a micro-batch in training, and of one in evaluation.
  EXPECT_EQ(graphs() - without, 2 * 1480u + 2 * 1480u / 4);
}

// Each micro-batch that a stage may hold between its passes has a graph of its own, and so has one
// of each size. The graph of evaluation is one more.
TEST(Memory, CountsTheGraphsOfEachMicroBatchInFlight) {
  const auto lanes = [](ScheduleKind schedule, std::int64_t batch_size) {
    PipelineOptions pipeline = pipeline_of({.partition = {2, 2},
                                            .micro_batches = 4,
                                            .batch_size = batch_size,
                                            .samples = 3 * batch_size,
                                            .schedule = schedule});
    pipeline.cuda_graphs = true;
    pipeline.stream.device = planned_device({.title = "a GPU", .workspace_bytes = {}});
    pipeline.block_costs.resize(4);
    const auto graphs = [&] { return part_of(pipeline, "stage 0 CUDA graphs"); };
    const std::size_t without = graphs();
    pipeline.block_costs[0].saved_bytes = 4000;
    return (graphs() - without) / 5000 - 1;
  };
  EXPECT_EQ(lanes(ScheduleKind::one_forward_one_backward, 8), 2u);
  EXPECT_EQ(lanes(ScheduleKind::gpipe, 8), 4u);
  EXPECT_EQ(lanes(ScheduleKind::eager_one_forward_one_backward, 8), 3u);
  EXPECT_EQ(lanes(ScheduleKind::one_forward_one_backward, 9), 3u) << "one of three samples";
  EXPECT_EQ(lanes(ScheduleKind::one_forward_one_backward, 10), 4u) << "two of each size";
}

// Small tensors cross in pinned blocks of 4 KiB.
TEST(Memory, CountsTheBlocksOfKeysAndClassWeights) {
  PipelineOptions pipeline = pipeline_of({.partition = {2, 2}, .replicas = 2, .micro_batches = 4});
  pipeline.stream.device = planned_device({.title = "a GPU", .workspace_bytes = {}});
  pipeline.block_costs.resize(4);
  const auto pinned = [&] { return part_of(pipeline, "pinned memory"); };
  const std::size_t without = pinned();
  const std::size_t loss = part_of(pipeline, "loss");
  pipeline.loss.class_weights.assign(4, 0.5);
  EXPECT_EQ(pinned() - without, 2 * 2 * 4096u) << "each replica has a loss, with two slots";
  pipeline.data.mix.mixup_alpha = 0.2;
  EXPECT_EQ(pinned() - without, 2 * 2 * 2 * 4096u) << "and two targets";
  pipeline.data.mix = {};
  EXPECT_EQ(part_of(pipeline, "loss") - loss, 2 * 4 * sizeof(double) * 5 / 4);
  pipeline.loss.class_weights.clear();
  pipeline.cuda_graphs = true;
  // Two micro-batches in flight in the first stage, one in the last, and in each as many as a
  // loader sends ahead.
  EXPECT_EQ(pinned() - without, 2 * (2 + 4 + 1 + 4) * 4096u);
}

TEST(Memory, CountsWhatAStageComputesIn) {
  PipelineOptions pipeline = pipeline_of({.partition = {4}, .micro_batches = 4});
  const auto activations = [&] { return part_of(pipeline, "stage 0 activations"); };
  // A pass adds up the gradient before it is sent.
  std::size_t gradient = 0;
  for (const BucketBytes& bucket : bucket_bytes(pipeline, 0)) gradient += bucket.all();
  ASSERT_GT(gradient, 0u);
  EXPECT_EQ(activations(), gradient + gradient / 4);
  pipeline.block_costs.resize(4);
  pipeline.block_costs[0].working_bytes = 400;
  pipeline.block_costs[2].working_bytes = 1000;
  const std::size_t unscaled = activations();
  EXPECT_EQ(unscaled, (gradient + 1000) * 5 / 4) << "one block computes at a time";
  pipeline.block_costs[3].widened_bytes = 80;
  EXPECT_EQ(activations(), unscaled);
  pipeline.loss_scale.mode = LossScaling::dynamic;
  EXPECT_EQ(activations(), unscaled + 100) << "the loss's gradient, scaled";
}

/// A data set of which each thread that reads takes a MiB.
class ReadInChunks final : public SampleReader {
 public:
  explicit ReadInChunks(Dataset data) : data_(std::move(data)) {}
  std::string_view name() const override { return data_.name(); }
  SampleSpec samples() const override { return data_.samples(); }
  std::int64_t count(Split split) const override { return data_.count(split); }
  void read(Split split, std::int64_t index, Tensor sample, Tensor target) const override {
    data_.read(split, index, std::move(sample), std::move(target));
  }
  std::size_t bytes_per_thread() const override { return std::size_t{1} << 20; }

 private:
  Dataset data_;
};

TEST(Memory, CountsWhatTheWorkersOfEachLoaderReadWith) {
  PipelineOptions pipeline = pipeline_of({.partition = {4}, .replicas = 2, .workers = 3});
  const auto of_data = [&] {
    const auto parts = memory_bound(pipeline, build_pipeline(pipeline), 1000).parts;
    return std::ranges::find(parts, "data set", &MemoryBound::Part::what)->bytes;
  };
  EXPECT_EQ(of_data(), 1000u);
  pipeline.data.dataset = std::make_shared<ReadInChunks>(pipeline.data.dataset);
  EXPECT_EQ(of_data(), 1000u + (std::size_t{6} << 20));
  pipeline.data.workers = 0;  // the loader itself reads
  EXPECT_EQ(of_data(), 1000u + (std::size_t{2} << 20));
}

}  // namespace
}  // namespace troupe
