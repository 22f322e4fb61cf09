// Whole runs whose images lie on the GPU and are augmented there. The bits are those of images that
// the CPU augments.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "actors/block_costs.h"
#include "actors/data/resident_images.h"
#include "actors/pipeline_bytes.h"
#include "gpu_run.h"
#include "ops/nn/network.h"
#include "ops/on_device.h"
#include "rows_module.h"
#include "runtime/tensor/allocator.h"
#include "stream_work.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;

enum class Images : std::uint8_t { sent, resident };

TrainingRun with(Images images, TrainingRun run) {
  run.adjust = [adjust = run.adjust, images](PipelineOptions& pipeline) {
    if (adjust) adjust(pipeline);
    pipeline.data.resident = images == Images::resident;
  };
  return run;
}

TrainingResult trained(const TrainingRun& run, Images images, std::uint32_t seed) {
  return trained_on_gpu(with(images, run), seed);
}

void expect_the_same(const TrainingResult& found, const TrainingResult& expected) {
  EXPECT_EQ(found.digest, expected.digest);
  EXPECT_EQ(reported(found), reported(expected));
}

TEST(CudaResident, MakesTheBitsAndEvaluationsOfImagesThatTheCpuAugments) {
  TrainingRun run{.partition = {2, 2}, .steps = 3, .workers = 1};
  for (const std::vector<Augment>& augment :
       {std::vector<Augment>{},
        {Augment::flip},
        {Augment::crop, Augment::vertical_flip, Augment::flip}}) {
    SCOPED_TRACE(augment.size());
    run.adjust = [&](PipelineOptions& pipeline) { pipeline.data.augment = augment; };
    const TrainingResult sent = trained(run, Images::sent, 1);
    EXPECT_EQ(sent.evaluations.size(), 1u);
    expect_the_same(trained(run, Images::resident, 2), sent);
  }
}

TEST(CudaResident, GivesThemToGraphs) {
  TrainingRun run{.partition = {2, 2}, .replicas = 2};
  const TrainingResult sent = trained(run, Images::sent, 1);
  run.adjust = [](PipelineOptions& pipeline) { pipeline.cuda_graphs = true; };
  expect_the_same(trained(run, Images::resident, 2), sent);
}

TEST(CudaResident, MakesThemInAnyNumberOfReplicasAndWorkers) {
  const TrainingResult sent = trained({.partition = {4}, .steps = 3}, Images::sent, 1);
  std::uint32_t seed = 2;
  for (const std::uint32_t replicas : {1, 2})
    for (const int workers : {0, 2}) {
      SCOPED_TRACE(::testing::Message() << replicas << " replicas, " << workers << " workers");
      const TrainingRun run{
          .partition = {2, 2}, .replicas = replicas, .steps = 3, .workers = workers};
      expect_the_same(trained(run, Images::resident, seed++), sent);
    }
}

TEST(CudaResident, AStreamWaitsForImagesThatAnotherOneCopies) {
  const Emulation emulation({.pace = cuda_on_cpu::Pace::by_hand});
  EmulatedStream first, second;
  const Tensor images = on_cpu_filled(7);
  ResidentImages resident;
  (void)resident.on_device(first.get(), Split::train, images);
  const Tensor there = resident.on_device(second.get(), Split::train, images);
  const Tensor result = on_cpu(second.get(), doubled(second.get(), there));
  EXPECT_THAT(values(result), ::testing::Each(14.0f));
  EXPECT_THAT(cuda_on_cpu::take_violations(), ::testing::IsEmpty());
}

TEST(CudaResident, MakesThemThroughALoaderThatFails) {
  const TrainingResult sent = trained({.partition = {4}, .steps = 3}, Images::sent, 1);
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    const TrainingRun run{.partition = {2, 2},
                          .replicas = 2,
                          .steps = 3,
                          .faults = {{.actor = "loader/1", .step = 1, .micro_batch = 2},
                                     {.actor = "loader/0", .step = 2, .micro_batch = 0}}};
    const TrainingResult result = trained(run, Images::resident, seed);
    EXPECT_EQ(result.failures.size(), 2u);
    EXPECT_EQ(result.digest, sent.digest) << "seed " << seed;
  }
}

// The host cannot read them, so it refuses no index before the GPU computes.
TEST(CudaResident, PixelsThatNameNoRowOfAnEmbeddingMakeNaN) {
  EmulatedStream stream;
  Tensor pixels = Tensor::zeros({2, 1, 2, 2}, DType::u8), values = Tensor::zeros({1, 256});
  std::iota(values.data<float>(), values.data<float>() + 256, 0.0f);
  pixels.data<std::uint8_t>()[6] = 11;
  Model model;
  model.add<Rows>("rows");
  Network network(std::move(model), 0, 1, DType::f32, stream.get());
  network.use(on_device(stream.get(), initial_state(network.spec(), DType::f32, 1)));
  network.take_pixels(values);
  EXPECT_THROW(network.evaluate(pixels), Error);
  const Tensor rows = on_cpu(stream.get(), network.evaluate(on_device(stream.get(), pixels)));
  ASSERT_EQ(rows.element_count(), 2 * 4 * 3);
  for (std::int64_t i = 0; i < rows.element_count(); ++i)
    EXPECT_EQ(std::isnan(rows.data<float>()[i]), i / 3 == 6) << i;
}

#ifdef TROUPE_CUDA_EMULATOR  // a GPU has more memory
TEST(CudaResident, NamesTheOptionIfTheImagesDoNotFit) {
  const EmulatedStream stream;
  const Tensor pixels = Tensor::zeros({4096, 1, 32, 32}, DType::u8);
  ResidentImages images;
  const Emulation emulation({.device_bytes = cuda_on_cpu::counts().device_bytes + (1 << 20)});
  try {
    images.on_device(stream.get(), Split::train, pixels);
    FAIL() << "they fit";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.message(), ::testing::HasSubstr("the images of the data set: out of memory"));
    EXPECT_THAT(error.remedy(), ::testing::StartsWith("set `resident` to false, or raise "));
  }
}
#endif

// The images are most of what the run holds, so that the bound has no room for a second copy.
TEST(CudaResident, AnySeedMakesThemWithinTheBoundOfThePlanAndLeavesNothing) {
  TrainingRun run{.partition = {4}, .samples = 96'000, .steps = 2, .evaluates = false};
  const TrainingResult sent = trained(run, Images::sent, 1);
  const PipelineOptions pipeline = pipeline_of(on_gpu(with(Images::resident, run)));
  const std::size_t images = resident_bytes(pipeline);
  EXPECT_EQ(images, std::size_t{96'000} * 8 * 8);
  const auto costs = measure_blocks(pipeline.model, pipeline.data.dataset.samples(), run.dtype,
                                    pipeline.stream, run.batch_size / run.micro_batches, 1);
  auto& allocator = CachingAllocator::of(emulated_gpu());
  const std::size_t before = allocator.counters().in_use_bytes;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    run.replicas = 1 + seed % 2;
    allocator.reset_peak();
    EXPECT_EQ(trained(run, Images::resident, seed).digest, sent.digest);
    const std::size_t bound = bound_of(pipeline_of(on_gpu(with(Images::resident, run))), costs);
    const std::size_t peak = allocator.counters().peak_bytes - before;
    EXPECT_LE(peak, bound);
    EXPECT_GE(peak, images);
    EXPECT_EQ(allocator.counters().in_use_bytes, before);
  }
}

}  // namespace
}  // namespace troupe::testing
