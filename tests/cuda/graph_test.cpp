// Passes as graphs: whole runs end with the bits of runs without them.

#include <gmock/gmock.h>

#include <vector>

#include "actors/block_costs.h"
#include "actors/data/datasets.h"
#include "actors/pipeline_bytes.h"
#include "gpu_run.h"
#include "ops/models/file_model.h"
#include "ops/on_device.h"
#include "runtime/error.h"
#include "runtime/tensor/allocator.h"
#include "source_folder.h"
#include "stream_work.h"

namespace troupe::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TrainingRun with_graphs(TrainingRun run) {
  run.adjust = [adjust = run.adjust](PipelineOptions& pipeline) {
    if (adjust) adjust(pipeline);
    pipeline.cuda_graphs = true;
  };
  return run;
}

/// With graphs and without: of weights, losses and evaluations.
void expect_same_bits(const TrainingRun& run, std::uint32_t seed) {
  const TrainingResult graphs = trained_on_gpu(with_graphs(run), seed);
  const TrainingResult without = trained_on_gpu(run, seed + 1);
  EXPECT_EQ(graphs.digest, without.digest);
  EXPECT_EQ(reported(graphs), reported(without));
}

TEST(CudaGraph, MakesTheBitsOfPassesWithoutGraphs) {
  std::uint32_t seed = 0;
  for (const char* model : {"mnist_cnn", "wide_resnet", "resnet18", "cifar_cnn"}) {
    SCOPED_TRACE(model);
    expect_same_bits({.model = model, .partition = {SIZE_MAX}, .samples = 16, .steps = 4}, ++seed);
  }
}

// They have constants, and dropouts of whole channels.
TEST(CudaGraph, MakesTheBitsOfModelsFromFiles) {
  for (const char* model : {"tied.pt2", "draws.pt2", "vit.pt2"}) {
    SCOPED_TRACE(model);
    const std::string file = source_folder() + "/tests/golden/graphs/" + model;
    expect_same_bits({.partition = {SIZE_MAX},
                      .micro_batches = 2,
                      .batch_size = 4,
                      .samples = 12,
                      .steps = 6,
                      .adjust =
                          [&](PipelineOptions& pipeline) {
                            pipeline.model = FileModel{.file = file};
                            pipeline.data.dataset = open_dataset(
                                Synthetic{.shape = {3, 20, 24}, .classes = 4, .count = 12});
                          }},
                     1);
  }
}

TEST(CudaGraph, DrawsOtherNumbersInEachMicroBatch) {
  expect_same_bits(
      {.model = "wide_resnet", .dropout = 0.5, .partition = {SIZE_MAX}, .samples = 16, .steps = 4},
      1);
}

TEST(CudaGraph, RoundsTheWeightsOfEachStep) {
  for (const DType products : {DType::bf16, DType::f16})
    expect_same_bits(
        {.partition = {2, 2},
         .adjust = [&](PipelineOptions& pipeline) { pipeline.stream.products = products; }},
        1);
}

TEST(CudaGraph, TakesImagesAsBytes) {
  expect_same_bits({.partition = {4},
                    .adjust =
                        [](PipelineOptions& pipeline) {
                          pipeline.data.dataset = open_dataset(
                              Synthetic{.shape = {3, 8, 8}, .classes = 4, .count = 24});
                        }},
                   1);
}

TEST(CudaGraph, LeavesASmallerLastBatchWithoutGraphs) {
  expect_same_bits({.partition = {2, 2}, .samples = 21, .drop_last = false}, 1);
}

TEST(CudaGraph, MakesTheBitsOfMicroBatchesOfTwoSizes) {
  expect_same_bits({.partition = {2, 2}, .replicas = 2, .micro_batches = 4, .batch_size = 7}, 1);
  expect_same_bits({.partition = {2, 2},
                    .micro_batches = 3,
                    .batch_size = 8,
                    .samples = 21,
                    .drop_last = false,
                    .schedule = ScheduleKind::zero_bubble_h1},
                   1);
}

// The average exists from the first update on.
TEST(CudaGraph, EvaluatesTheAverageOfTheWeights) {
  expect_same_bits({.partition = {2, 2}, .adjust = use_adamw}, 1);
}

// A version is rounded once, by whichever pass reads it first.
TEST(CudaGraph, EvaluatesARoundedAverageWithGraphsAndWithout) {
  TrainingRun run{.partition = {2, 2}, .samples = 54, .steps = 4};  // 9 for testing: 8, and 1
  run.adjust = [](PipelineOptions& pipeline) {
    use_adamw(pipeline);
    pipeline.stream.products = DType::bf16;
  };
  expect_same_bits(run, 1);
}

TEST(CudaGraph, MakesTheSameBitsInSeveralBuckets) {
  TrainingRun run{.partition = {2, 2}, .replicas = 2};
  run.adjust = [](PipelineOptions& pipeline) { pipeline.bucket_cap_bytes = 1; };
  for (const ScheduleKind schedule :
       {ScheduleKind::one_forward_one_backward, ScheduleKind::zero_bubble_h1}) {
    run.schedule = schedule;
    expect_same_bits(run, 1);
  }
}

TEST(CudaGraph, MakesTheSameBitsWithFrozenStages) {
  expect_same_bits({.partition = {1, 1, 2}, .adjust = freeze_layers}, 1);
}

TEST(CudaGraph, MakesTheSameBitsWhenAStageFails) {
  expect_same_bits({.partition = {2, 2},
                    .replicas = 2,
                    .faults = {{.actor = "stage/1/1", .step = 3, .micro_batch = 3}}},
                   2);
}

TEST(CudaGraph, IsRefusedWithStaleness) {
  PipelineOptions pipeline = pipeline_of(on_gpu(with_graphs({})));
  pipeline.staleness = 1;
  try {
    (void)build_pipeline(pipeline);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("`cuda_graphs` is true and `staleness` 1"));
  }
}

class CudaGraphBound : public ::testing::TestWithParam<std::uint32_t> {};
// 8 samples: all micro-batches have as many, or some one more.
INSTANTIATE_TEST_SUITE_P(MicroBatches, CudaGraphBound, ::testing::Values(4, 3));

TEST_P(CudaGraphBound, HoldsAndNothingIsLeft) {
  TrainingRun run =
      with_graphs({.partition = {4}, .micro_batches = GetParam(), .samples = 8, .steps = 2});
  const std::string one = digest_on_gpu(run, 1);
  const PipelineOptions pipeline = pipeline_of(on_gpu(run));
  const auto costs =
      measure_blocks(pipeline.model, pipeline.data.dataset.samples(), run.dtype, pipeline.stream,
                     static_cast<std::int64_t>(micro_batch_samples(pipeline)), 1);
  auto& allocator = CachingAllocator::of(emulated_gpu());
  const std::size_t before = allocator.counters().in_use_bytes;
  const std::vector<std::vector<std::size_t>> partitions = {{2, 2}, {1, 1, 2}, {4}};
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    const auto& [name, schedule] = schedule_names[seed % std::size(schedule_names)];
    run.partition = partitions[seed % partitions.size()];
    run.replicas = 1 + seed % 2;
    run.schedule = schedule;
    SCOPED_TRACE(::testing::Message() << name << ", " << run.partition.size() << " stages, "
                                      << run.replicas << " replicas, seed " << seed);
    allocator.reset_peak();
    EXPECT_EQ(digest_on_gpu(run, seed), one);
    const std::size_t bound = bound_of(pipeline_of(on_gpu(run)), costs);
    const std::size_t peak = allocator.counters().peak_bytes - before;
    EXPECT_LE(peak, bound);
    EXPECT_GE(peak, bound / 6) << "the bound is loose: " << bound << " for " << peak;
    EXPECT_EQ(allocator.counters().in_use_bytes, before);
  }
}

TEST(CudaGraph, IsLaunchedByTheStreamThatCapturedIt) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    const cuda_on_cpu::Emulation emulation(drawn(seed));
    EmulatedStream stream;
    DeviceStream& device = *device_stream(stream.get());
    Tensor x = on_device(stream.get(), on_cpu_filled(1)), y = doubled(stream.get(), x);
    device.begin_capture();
    table(stream.get()).copy(stream.get(), doubled(stream.get(), x), y);
    const DeviceGraphPtr graph = device.end_capture();
    for (const float value : {3.0f, 4.0f}) {
      table(stream.get()).fill(stream.get(), value, x);
      graph->launch();
      EXPECT_THAT(values(on_cpu(stream.get(), y)), Each(2 * value));
    }
  }
}

TEST(CudaGraph, RefusesCopiesOfTheCpusMemoryAndTheStreamGoesOn) {
  EmulatedStream stream;
  DeviceStream& device = *device_stream(stream.get());
  const Tensor x = on_device(stream.get(), on_cpu_filled(1));
  for (const bool comes : {true, false}) {
    device.begin_capture();
    try {
      (void)(comes ? on_device(stream.get(), on_cpu_filled(2)) : to_cpu(stream.get(), x));
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_THAT(error.message(), HasSubstr("cannot be a part of a CUDA graph"));
      EXPECT_THAT(error.remedy(), HasSubstr("`cuda_graphs`"));
    }
    (void)device.end_capture();
    EXPECT_THAT(values(on_cpu(stream.get(), doubled(stream.get(), x))), Each(2.0f));
  }
}

}  // namespace
}  // namespace troupe::testing
