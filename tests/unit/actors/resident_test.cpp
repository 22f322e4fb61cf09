// Images in the memory of a device: one copy for all loaders, and whole pipelines on the delayed
// device, where a missing wait is a violation.

#include <gmock/gmock.h>

#include "actors/block_costs.h"
#include "actors/data/datasets.h"
#include "actors/data/resident_images.h"
#include "actors/memory_bound.h"
#include "actors/pipeline_bytes.h"
#include "delayed_device.h"
#include "ops/on_device.h"
#include "runtime/device/own_stream.h"
#include "training_run.h"

namespace troupe {
namespace {

using testing::delayed_device;
using testing::DelayedWork;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Pace;
using testing::pipeline_of;
using testing::reported;
using testing::train;
using testing::TrainingResult;
using testing::TrainingRun;

TrainingRun there(TrainingRun run) {
  run.adjust = [adjust = run.adjust](PipelineOptions& pipeline) {
    if (adjust) adjust(pipeline);
    pipeline.stream.device = delayed_device();
    pipeline.data.resident = true;
  };
  return run;
}

TrainingResult train_there(TrainingRun run, std::uint64_t seed) {
  run.order = seed;
  const DelayedWork work(seed, Pace::by_hand);
  run.outside = work.outside();
  TrainingResult result = train(there(run));
  EXPECT_THAT(DelayedWork::violations(), IsEmpty()) << "seed " << seed;
  return result;
}

Tensor pixels(std::int64_t images) {
  Tensor pixels = Tensor::empty({images, 1, 2, 2}, DType::u8, Device::cpu());
  for (std::int64_t i = 0; i < pixels.element_count(); ++i)
    pixels.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i);
  return pixels;
}

TEST(ResidentImages, AreOneCopyOfEachSplitForWhichOtherStreamsWait) {
  const DelayedWork work(1, Pace::by_hand);
  const OwnStream a(Stream{.device = delayed_device()}), b(Stream{.device = delayed_device()});
  ResidentImages images;
  const Tensor train = pixels(3), test = pixels(2);
  const Tensor of_a = images.on_device(a.get(), Split::train, train);
  const Tensor of_b = images.on_device(b.get(), Split::train, train);
  EXPECT_EQ(of_b.storage(), of_a.storage());
  EXPECT_NE(images.on_device(b.get(), Split::test, test).storage(), of_a.storage());
  EXPECT_EQ(images.on_device(b.get(), Split::train, train).storage(), of_a.storage());
  const Tensor back = on_cpu(b.get(), of_b);
  EXPECT_TRUE(std::equal(back.raw(), back.raw() + back.bytes(), train.raw()));
  EXPECT_THAT(DelayedWork::violations(), IsEmpty());
}

TEST(ResidentImages, AreCopiedAgainIfTheFirstCopyHasFailed) {
  const DelayedWork work(1, Pace::by_hand);
  ResidentImages images;
  const Tensor train = pixels(3);
  Tensor failed;
  {
    const OwnStream a(Stream{.device = delayed_device()});
    DelayedWork::fail_at_fence(1);
    failed = images.on_device(a.get(), Split::train, train);
    EXPECT_THROW(synchronize(a.get()), Error);
  }
  const OwnStream b(Stream{.device = delayed_device()});
  const Tensor again = images.on_device(b.get(), Split::train, train);
  EXPECT_NE(again.storage(), failed.storage());
  const Tensor back = on_cpu(b.get(), again);
  EXPECT_TRUE(std::equal(back.raw(), back.raw() + back.bytes(), train.raw()));
}

TEST(ResidentPipeline, TrainsAndEvaluatesWithTheCpusBitsInAnyOrderOfTheDevicesWork) {
  for (const std::uint32_t replicas : {1, 2}) {
    const TrainingRun run{.replicas = replicas};
    const TrainingResult here = train(run);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      const TrainingResult result = train_there(run, seed);
      EXPECT_EQ(result.digest, here.digest) << "seed " << seed;
      EXPECT_EQ(reported(result), reported(here)) << "seed " << seed;
    }
  }
}

// The images are most of what the run holds.
TEST(ResidentPipeline, RecoversALoaderWithTheCpusBitsAndOneCopyOfTheImages) {
  TrainingRun run{.replicas = 2, .samples = 96'000, .evaluates = false};
  const TrainingResult here = train(run);
  const std::size_t images = resident_bytes(pipeline_of(there(run)));
  EXPECT_EQ(images, std::size_t{96'000} * 8 * 8);
  run.faults = {{.actor = "loader/0", .step = 3, .micro_batch = 1}};
  auto& allocator = CachingAllocator::of(delayed_device());
  const std::size_t before = allocator.counters().in_use_bytes;
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    allocator.reset_peak();
    const TrainingResult result = train_there(run, seed);
    EXPECT_EQ(result.failures.size(), 1u);
    EXPECT_EQ(result.digest, here.digest);
    EXPECT_GE(allocator.counters().peak_bytes - before, images);
    EXPECT_LE(allocator.counters().peak_bytes - before, images * 3 / 2) << "a second copy";
    EXPECT_EQ(allocator.counters().in_use_bytes, before);
  }
}

TEST(ResidentPipeline, RecoversFromWorkThatFails) {
  TrainingRun run{.replicas = 2, .restarts = {.max = 20}};
  const TrainingResult here = train(run);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const DelayedWork work(seed, Pace::by_hand);
    run.order = seed;
    run.outside = work.outside();
    DelayedWork::fail_at_fence(5 * seed - 4);
    EXPECT_EQ(train(there(run)).digest, here.digest) << "seed " << seed;
    EXPECT_THAT(DelayedWork::violations(), IsEmpty()) << "seed " << seed;
  }
}

TEST(ResidentPipeline, StaysWithinTheBoundOfThePlan) {
  TrainingRun run = there({.partition = {2, 2}, .samples = 96'000, .steps = 2, .evaluates = false});
  PipelineOptions pipeline = pipeline_of(run);
  pipeline.writer = CheckpointWriterOptions{};
  pipeline.block_costs = measure_blocks(pipeline.model, pipeline.data.dataset.samples(), run.dtype,
                                        pipeline.stream, 2, 1);
  const std::size_t bound =
      memory_bound(pipeline, build_pipeline(pipeline), 0).total(MemoryBound::Place::device);
  auto& allocator = CachingAllocator::of(delayed_device());
  const std::size_t before = allocator.counters().in_use_bytes;
  for (const std::uint64_t seed : {1, 2, 3}) {
    const DelayedWork work(seed, Pace::by_hand);
    run.outside = work.outside();
    allocator.reset_peak();
    train(run);
    EXPECT_LE(allocator.counters().peak_bytes - before, bound) << "seed " << seed;
  }
}

std::string refusal(const std::function<void(PipelineOptions&)>& change) {
  PipelineOptions pipeline = pipeline_of(there({}));
  change(pipeline);
  try {
    build_pipeline(pipeline);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_THAT(error.remedy(), HasSubstr("false"));
    return error.message();
  }
  return "nothing was refused";
}

/// Reads one image at a time.
class ReadFromFiles final : public SampleReader {
 public:
  explicit ReadFromFiles(Dataset data) : data_(std::move(data)) {}
  std::string_view name() const override { return "files"; }
  SampleSpec samples() const override { return data_.samples(); }
  std::int64_t count(Split split) const override { return data_.count(split); }
  void read(Split split, std::int64_t index, Tensor sample, Tensor target) const override {
    data_.read(split, index, std::move(sample), std::move(target));
  }

 private:
  Dataset data_;
};

TEST(ResidentPipeline, RefusesWhatTheDeviceDoesNotPrepareTheSameWay) {
  EXPECT_EQ(refusal([](PipelineOptions&) {}), "nothing was refused");
  EXPECT_THAT(refusal([](PipelineOptions& p) {
                p.data.augment = {Augment::flip, Augment::random_erasing};
              }),
              HasSubstr("`augment` has more than flip, vertical_flip and crop"));
  EXPECT_THAT(refusal([](PipelineOptions& p) { p.data.mix.mixup_alpha = 0.25; }),
              HasSubstr("`mixup_alpha` is 0.25"));
  EXPECT_THAT(refusal([](PipelineOptions& p) { p.data.mix.cutmix_alpha = 1; }),
              HasSubstr("`cutmix_alpha` is 1"));
  EXPECT_THAT(refusal([](PipelineOptions& p) {
                p.data.transform = [](const Tensor&, const RandomKey&) {};
              }),
              HasSubstr("the program has a transform of its own"));
  EXPECT_THAT(refusal([](PipelineOptions& p) {
                p.data.dataset = std::make_shared<ReadFromFiles>(p.data.dataset);
              }),
              HasSubstr("files reads its training images on demand"));
}

TEST(ResidentPipeline, HasNoEffectOnTheCpu) {
  const TrainingRun run;
  TrainingRun resident = run;
  resident.adjust = [](PipelineOptions& pipeline) { pipeline.data.resident = true; };
  EXPECT_EQ(resident_bytes(pipeline_of(resident)), 0u);
  EXPECT_EQ(train(resident).digest, train(run).digest);
}

TEST(ResidentPipeline, IsCountedInTheMemoryOfTheDevice) {
  PipelineOptions pipeline = pipeline_of(there({}));
  pipeline.block_costs.resize(4);
  const auto part = [&](std::string_view what, MemoryBound::Place place) {
    for (const auto& one : memory_bound(pipeline, build_pipeline(pipeline), 0).parts)
      if (one.what == what && one.place == place) return one.bytes * 4 / 5;
    return std::size_t{0};
  };
  const std::size_t image = std::size_t{8} * 8, window = 5 * sizeof(std::int64_t);
  const std::size_t prepared = 8;  // samples: four micro-batches of two
  EXPECT_EQ(part("resident images", MemoryBound::Place::device), (24 + 4) * image);
  EXPECT_EQ(part("loader, prepared ahead", MemoryBound::Place::cpu),
            prepared * (window + sizeof(std::int64_t)));
  const std::size_t pinned = part("pinned memory", MemoryBound::Place::cpu);
  pipeline.evaluates = false;
  EXPECT_EQ(part("resident images", MemoryBound::Place::device), 24 * image);
  EXPECT_NEAR(static_cast<double>(pinned - part("pinned memory", MemoryBound::Place::cpu)),
              0.8 * (4 * image), 1)
      << "the plan adds no quarter for size classes to pinned memory";
  pipeline.data.resident = false;
  EXPECT_EQ(part("resident images", MemoryBound::Place::device), 0u);
}

}  // namespace
}  // namespace troupe
