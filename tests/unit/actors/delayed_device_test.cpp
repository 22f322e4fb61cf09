// Streams and fences of the delayed device, and what is special in pipelines on it. The tests of
// pipelines run there too: see training_run.h.
#include "delayed_device.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "actors/block_costs.h"
#include "actors/data/datasets.h"
#include "actors/evaluate.h"
#include "actors/memory_bound.h"
#include "ops/on_device.h"
#include "ops/optim/sgd.h"
#include "runtime/device/own_stream.h"
#include "training_run.h"

namespace troupe {
namespace {

using testing::delayed_device;
using testing::DelayedWork;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using testing::Pace;
using testing::pipeline_of;
using testing::reported;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

/// Two streams, whose work goes on by hand.
class DelayedDevice : public ::testing::Test {
 protected:
  Tensor ones(const OwnStream& stream) {
    Tensor result = Tensor::empty({5}, DType::f32, delayed_device());
    table_.fill(stream.get(), 1.0, result);
    return result;
  }
  Tensor relu(const OwnStream& stream, const Tensor& x) { return table_.relu(stream.get(), x); }
  static void finish_all() {
    while (DelayedWork::advance()) {
    }
  }

  DelayedWork work_{1, Pace::by_hand};
  OwnStream a_{Stream{.device = delayed_device()}}, b_{Stream{.device = delayed_device()}};
  const KernelTable& table_ = kernels(delayed_device(), DType::f32);
};

TEST_F(DelayedDevice, IsCopiedByItsOwnStreamsOnly) {
  const Tensor x = ones(a_);
  EXPECT_THROW(on_device({}, x), Error) << "else the CPU would read the memory of a device";
  EXPECT_THROW(to_cpu({}, x), Error);
  EXPECT_NO_THROW(to_cpu(a_.get(), x));
  finish_all();
}

TEST_F(DelayedDevice, ReportsAReadThatDoesNotWaitForTheWrite) {
  const Tensor x = ones(a_);
  relu(b_, x);
  EXPECT_THAT(DelayedWork::violations(),
              ElementsAre(MatchesRegex("relu: argument 2 on stream [0-9]+ is read, without "
                                       "waiting, what fill writes on stream [0-9]+")));
}

TEST_F(DelayedDevice, ReportsAWriteThatDoesNotWaitForARead) {
  Tensor x = ones(a_);
  const WorkPtr written = a_.device_stream()->fence();
  // Both results are kept: a block that one leaves to the other would order them.
  const Tensor of_a = relu(a_, x);
  b_.device_stream()->wait(written, Awaits::results);
  const Tensor of_b = relu(b_, x);
  EXPECT_THAT(DelayedWork::violations(), IsEmpty());
  table_.fill(b_.get(), 2.0, x);
  EXPECT_THAT(DelayedWork::violations(), ElementsAre(HasSubstr("what relu reads on stream")));
}

TEST_F(DelayedDevice, FindsNothingWhereTheStreamWaitsOrTheHostHasSeenTheFencePass) {
  const Tensor x = ones(a_), y = ones(a_);
  b_.device_stream()->wait(a_.device_stream()->fence(), Awaits::results);
  relu(b_, x);
  const Tensor z = ones(a_);
  const WorkPtr fence = a_.device_stream()->fence();
  while (!fence->done()) DelayedWork::advance();
  relu(b_, z);
  EXPECT_THAT(DelayedWork::violations(), IsEmpty());
}

TEST_F(DelayedDevice, LetsNoStreamPassAFenceThatItWaitsFor) {
  ones(a_);
  const WorkPtr first = a_.device_stream()->fence();
  b_.device_stream()->wait(first, Awaits::results);
  const WorkPtr second = b_.device_stream()->fence();
  bool first_had_passed = false;
  second->then([&](const Status&) { first_had_passed = first->done(); });
  EXPECT_FALSE(first->done());
  finish_all();
  EXPECT_TRUE(second->done());
  EXPECT_TRUE(first_had_passed);
}

TEST_F(DelayedDevice, FillsACopyInTheCpusMemoryWhenItsStreamHasComeThatFar) {
  const Tensor here = to_cpu(a_.get(), ones(a_));
  for (const float value : here.elements<float>()) EXPECT_TRUE(std::isnan(value));
  synchronize(a_.get());
  EXPECT_THAT(here.elements<float>(), Each(1.0f));
}

TEST_F(DelayedDevice, KeepsWhatItHasToCopyAndReportsAChangeOfIt) {
  Tensor here = Tensor::zeros({4});
  const Tensor there = on_device(a_.get(), here);
  { const Tensor dropped = on_device(a_.get(), Tensor::zeros({4})); }
  Tensor::zeros({4}).data<float>()[0] = 1;  // other memory, since the copy holds that one
  here.data<float>()[0] = 1;
  finish_all();
  EXPECT_THAT(
      DelayedWork::violations(),
      ElementsAre(MatchesRegex("copy: the host has changed what stream [0-9]+ had still to copy")));
}

TEST_F(DelayedDevice, ReusesAFreedBlockOnAnotherStreamAfterAllThatUsesIt) {
  const std::byte* block = nullptr;
  {
    const Tensor x = ones(a_);
    block = x.storage()->data();
    b_.device_stream()->wait(a_.device_stream()->fence(), Awaits::results);
    relu(b_, x);
  }
  OwnStream c(Stream{.device = delayed_device()});
  std::vector<Tensor> reused;  // other blocks may be free too
  do reused.push_back(ones(c));
  while (reused.back().storage()->data() != block && reused.size() < 1000);
  EXPECT_EQ(reused.back().storage()->data(), block);
  EXPECT_THAT(DelayedWork::violations(), IsEmpty());
  const WorkPtr of_a = a_.device_stream()->fence(), of_b = b_.device_stream()->fence();
  bool after_both = false;
  c.device_stream()->fence()->then(
      [&](const Status&) { after_both = of_a->done() && of_b->done(); });
  finish_all();
  EXPECT_TRUE(after_both);
}

TEST_F(DelayedDevice, PassesAnErrorToStreamsThatTakeResultsAndToNoOthers) {
  OwnStream c(Stream{.device = delayed_device()});
  Tensor x = ones(a_);
  finish_all();  // also fences for memory that earlier tests have used
  DelayedWork::fail_at_fence(1);
  table_.fill(a_.get(), 2.0, x);
  const WorkPtr failed = a_.device_stream()->fence();
  b_.device_stream()->wait(failed, Awaits::results);
  c.device_stream()->wait(failed, Awaits::memory);
  const WorkPtr of_b = b_.device_stream()->fence(), of_c = c.device_stream()->fence();
  finish_all();
  EXPECT_THAT(failed->status().error().what(),
              MatchesRegex(".*the work of stream [0-9]+ has failed.*"));
  EXPECT_FALSE(of_b->status());
  EXPECT_TRUE(of_c->status());
  EXPECT_THROW(synchronize(a_.get()), Error);
}

TEST_F(DelayedDevice, RefusesAStreamThatWasNotOpened) {
  const Tensor x = ones(a_);
  EXPECT_THROW(table_.relu(Stream{.device = delayed_device()}, x), std::runtime_error);
}

TEST_F(DelayedDevice, ReportsAnActorThatWaitsForItsStream) {
  synchronize(b_.get());  // as the writer of checkpoints, which is no actor
  EXPECT_THAT(DelayedWork::violations(), IsEmpty());
  a_.device_stream()->begin_range("stage/0");
  a_.device_stream()->end_range();
  ones(a_);
  synchronize(a_.get());
  EXPECT_THAT(DelayedWork::violations(), ElementsAre("stage/0 waits for its stream"));
}

TEST(OwnStreamTest, IsOpenedAtTheFirstUseAndOnlyWhereThereAreStreams) {
  const DelayedWork work(1, Pace::by_hand);
  const OwnStream none, there(Stream{.device = delayed_device(), .threads = 3});
  EXPECT_EQ(none.device_stream(), nullptr);
  EXPECT_EQ(there.get().threads, 3);
  EXPECT_EQ(there.get().handle, there.device_stream());
  EXPECT_EQ(there.device_stream()->device(), delayed_device());
}

TrainingRun there(TrainingRun run) {
  const auto adjust = run.adjust;
  run.adjust = [adjust](PipelineOptions& pipeline) {
    if (adjust) adjust(pipeline);
    pipeline.stream.device = delayed_device();
  };
  return run;
}

TEST(DelayedPipeline, TrainsAndEvaluatesWithTheCpusBitsInAnyOrderOfItsWork) {
  TrainingRun run;
  const TrainingResult here = train(run);
  EXPECT_EQ(here.digest.size(), 64u);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const DelayedWork work(seed, Pace::by_hand);
    run.order = seed;
    run.outside = work.outside();
    const TrainingResult result = train(there(run));
    EXPECT_EQ(result.digest, here.digest);
    EXPECT_EQ(reported(result), reported(here));
    EXPECT_THAT(DelayedWork::violations(), IsEmpty());
  }
}

TEST(DelayedPipeline, RecoversFromWorkThatFails) {
  TrainingRun run{.snapshot_every = 2, .restarts = {.max = 20}};
  const TrainingResult here = train(run);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const DelayedWork work(seed, Pace::by_hand);
    run.order = seed;
    run.outside = work.outside();
    DelayedWork::fail_at_fence(9 * seed - 4);
    const TrainingResult result = train(there(run));
    EXPECT_EQ(result.digest, here.digest) << "seed " << seed;
    EXPECT_THAT(DelayedWork::violations(), IsEmpty()) << "seed " << seed;
    // Of an actor, or of the copies of a checkpoint, which is not written then.
    const bool has_failed =
        !result.failures.empty() ||
        std::ranges::any_of(result.checkpoints, [](const auto& seen) { return !seen.status; });
    EXPECT_TRUE(has_failed) << "seed " << seed << ": " << DelayedWork::passed();
  }
}

TEST(DelayedPipeline, RefusesAWrongTargetOnTheHostWithTheSameMessage) {
  const auto refusal = [](const Stream& stream) -> std::string {
    Tensor targets = Tensor::zeros({2}, DType::i64);
    targets.data<std::int64_t>()[1] = 3;
    try {
      loss_of(stream, {}, on_device(stream, Tensor::zeros({2, 3})), targets, 1.0, true);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  };
  const DelayedWork work(1, Pace::by_hand);
  const OwnStream stream(Stream{.device = delayed_device()});
  EXPECT_THAT(refusal({}), HasSubstr("target 3 of sample 1 is outside [0, 3)"));
  EXPECT_EQ(refusal(stream.get()), refusal({}));
}

TEST(DelayedPipeline, EvaluatesTensorsOfTheCpuAsTheCpuDoes) {
  const TrainingRun training{.model = "wide_resnet", .partition = {12}};
  const PipelineOptions here = pipeline_of(training), away = pipeline_of(there(training));
  const Model model = here.model.make(here.data.dataset.samples());
  StateSpec spec;
  for (const auto& block : model.blocks) block->declare(spec);
  const TensorSource weights =
      TensorSource::of(named_tensors(spec, *initial_state(spec, DType::f32, 1), false));
  const Evaluation expected = evaluate(here, weights);
  const DelayedWork work(3, Pace::thread);
  const Evaluation found = evaluate(away, weights);
  EXPECT_EQ(found.correct, expected.correct);
  EXPECT_EQ(found.loss, expected.loss);
  EXPECT_THAT(DelayedWork::violations(), IsEmpty());
}

void expect_within_the_bound(TrainingRun run) {
  PipelineOptions pipeline = pipeline_of(run);
  const auto costs = measure_blocks(
      pipeline.model, pipeline.data.dataset.samples(), run.dtype, pipeline.stream,
      run.batch_size / static_cast<std::int64_t>(run.micro_batches), 1, freezes_of(pipeline));
  auto& allocator = CachingAllocator::of(delayed_device());
  const std::size_t before = allocator.counters().in_use_bytes;
  for (const auto& [name, schedule] : schedule_names) {
    SCOPED_TRACE(name);
    run.schedule = schedule;
    pipeline = pipeline_of(run);
    pipeline.writer = CheckpointWriterOptions{};
    pipeline.block_costs = costs;
    const std::size_t bound =
        memory_bound(pipeline, build_pipeline(pipeline), 0).total(MemoryBound::Place::device);
    for (const std::uint64_t seed : {1, 3}) {
      const DelayedWork work(seed, Pace::by_hand);
      run.outside = work.outside();
      allocator.reset_peak();
      train(run);
      EXPECT_LE(allocator.counters().peak_bytes - before, bound) << "seed " << seed;
      EXPECT_THAT(DelayedWork::violations(), IsEmpty());
    }
  }
  EXPECT_EQ(allocator.counters().in_use_bytes, before);
}

TEST(DelayedPipeline, StaysWithinTheBoundOfThePlan) {
  expect_within_the_bound(there({.model = "wide_resnet",
                                 .partition = {5, 7},
                                 .micro_batches = 8,
                                 .batch_size = 16,
                                 .samples = 16,
                                 .steps = 1}));
}

TEST(DelayedPipeline, StaysWithinTheBoundOfThePlanWithFrozenBlocks) {
  expect_within_the_bound(
      there({.model = "resnet18",
             .partition = {SIZE_MAX},
             .micro_batches = 1,
             .batch_size = 16,
             .samples = 16,
             .steps = 1,
             .adjust = [](PipelineOptions& pipeline) {
               pipeline.data.dataset =
                   open_dataset(Synthetic{.shape = {3, 48, 48}, .classes = 4, .count = 16});
               const Sgd sgd{.momentum = 0.9};
               pipeline.optimizer = Optimizer(sgd).with_groups(
                   {{.parameters = {"conv1.*", "bn1.*", "layer*"}, .optimizer = sgd, .lr = 0.0}});
             }}));
}

}  // namespace
}  // namespace troupe
