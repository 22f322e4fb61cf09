// Whole training runs on the emulated GPU: real actors, real CUDA code. What the numbers are is
// compared with the CPU's; that nothing was left to chance follows from the emulator's clocks.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "actors/block_costs.h"
#include "actors/data/datasets.h"
#include "actors/pipeline_bytes.h"
#include "gpu_run.h"
#include "runtime/tensor/allocator.h"
#include "runtime/tensor/cast.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;

/// The differences of weights, optimizer states and statistics.
std::vector<double> differences(const std::vector<NamedTensor>& left,
                                const std::vector<NamedTensor>& right) {
  if (left.size() != right.size()) return {INFINITY};
  std::vector<double> found;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i].name != right[i].name) return {INFINITY};
    if (!is_floating(left[i].tensor.dtype())) continue;
    const Tensor x = cast(left[i].tensor, DType::f64), y = cast(right[i].tensor, DType::f64);
    for (std::int64_t e = 0; e < x.element_count(); ++e)
      found.push_back(std::abs(x.data<double>()[e] - y.data<double>()[e]));
  }
  return found;
}

/// The Euclidean distance.
double distance(const std::vector<NamedTensor>& left, const std::vector<NamedTensor>& right) {
  double sum = 0;
  for (const double difference : differences(left, right)) sum += difference * difference;
  return std::sqrt(sum);
}

double largest_difference(const TrainingResult& a, const TrainingResult& b) {
  return std::ranges::max(differences(a.written.rbegin()->second, b.written.rbegin()->second));
}

std::string digest(const TrainingRun& run, std::uint32_t seed) { return digest_on_gpu(run, seed); }

TEST(CudaPipeline, EndsWithTheWeightsOfTheCpu) {
  struct Case {
    const char* model;
    DType dtype;
  };
  for (const auto& [model, dtype] : {Case{"wide_resnet", DType::f64}, Case{"mnist_cnn", DType::f32},
                                     Case{"resnet18", DType::f64}}) {
    SCOPED_TRACE(model);
    const TrainingRun run{
        .model = model, .partition = {SIZE_MAX}, .micro_batches = 1, .steps = 1, .dtype = dtype};
    const Emulation emulation({.seed = 1, .checked_places = 61});
    EXPECT_LE(largest_difference(train(on_gpu(run)), train(run)),
              dtype == DType::f64 ? 1e-11 : 1e-5);
    EXPECT_THAT(cuda_on_cpu::take_violations(), ::testing::IsEmpty());
  }
}

TEST(CudaPipeline, AnyStagesReplicasAndOrdersMakeTheSameBits) {
  const std::string one = digest({.partition = {4}}, 1);
  struct Case {
    std::vector<std::size_t> partition;
    std::uint32_t replicas = 1;
    ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  };
  const std::vector<Case> cases = {{{2, 2}},
                                   {{1, 1, 2}, 1, ScheduleKind::gpipe},
                                   {{1, 1, 1, 1}},
                                   {{4}, 2},
                                   {{2, 2}, 2, ScheduleKind::zero_bubble_h1}};
  std::uint32_t seed = 1;
  for (const auto& [partition, replicas, schedule] : cases) {
    SCOPED_TRACE(::testing::Message()
                 << partition.size() << " stages, " << replicas << " replicas, seed " << ++seed);
    EXPECT_EQ(digest({.partition = partition, .replicas = replicas, .schedule = schedule}, seed),
              one);
  }
}

TEST(CudaPipeline, TracesWhenTheDeviceComputed) {
  TrainingRun run{.partition = {2, 2}, .steps = 2};
  run.trace = true;
  const Emulation emulation({.seed = 3, .checked_places = 61});
  const TrainingResult result = train(on_gpu(run));
  EXPECT_THAT(cuda_on_cpu::take_violations(), ::testing::IsEmpty());
  std::map<std::size_t, std::vector<TraceEvent>> passes;  // by stage, in the order of its stream
  for (const TraceEvent& event : result.report.trace)
    if (event.name == "F" || event.name == "B") passes[event.actor].push_back(event);
  ASSERT_EQ(passes.size(), 2u);
  for (auto& [stage, events] : passes) {
    std::ranges::sort(events, {}, &TraceEvent::begin);
    for (std::size_t i = 0; i < events.size(); ++i) {
      EXPECT_LT(events[i].begin, events[i].end);
      EXPECT_LE(events[i].end, result.report.wall);
    }
    const TimeSplit& time = result.report.actors[stage].time;
    EXPECT_LE(time.total(), result.report.wall);
    EXPECT_GT(time.compute.count(), 0);
  }
}

TEST(CudaPipeline, RoundedProductsMakeTheSameBits) {
  const std::string exact = digest({.partition = {4}, .steps = 2}, 1);
  for (const DType products : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(products));
    const auto adjust = [&](PipelineOptions& pipeline) { pipeline.stream.products = products; };
    const std::string one = digest({.partition = {4}, .steps = 2, .adjust = adjust}, 1);
    EXPECT_NE(one, exact);
    EXPECT_EQ(digest({.partition = {2, 2}, .replicas = 2, .steps = 2, .adjust = adjust}, 2), one);
  }
}

// If one of loss, gradients and update did not get the scale, they would hardly move, or by
// thousands. After more steps, ReLUs that decide otherwise count more than rounding.
TEST(CudaPipeline, MixedPrecisionEndsNearTheWeightsOfF32) {
  const auto trained = [](DType products) {
    const auto adjust = [=](PipelineOptions& pipeline) {
      pipeline.stream.products = products;
      pipeline.loss_scale.init_scale = 1024;
    };
    return trained_on_gpu({.partition = {2, 2}, .steps = 2, .snapshot_every = 1, .adjust = adjust},
                          1);
  };
  const TrainingResult exact = trained(DType::f32);
  const double moved = distance(exact.written.at(1), exact.written.at(2));
  for (const DType products : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(products));
    const TrainingResult mixed = trained(products);
    EXPECT_EQ(mixed.steps.front().loss_scale.has_value(), products == DType::f16);
    EXPECT_LE(distance(mixed.written.at(2), exact.written.at(2)),
              (products == DType::f16 ? 0.02 : 0.2) * moved);
  }
}

TEST(CudaPipeline, BytesMakeTheBitsOfNumbersThatTheCpuNormalises) {
  const auto digest_of = [&](DType dtype, DType products, bool bytes, std::uint32_t seed) {
    TrainingRun run{.partition = {2, 2}, .replicas = 2, .steps = 2, .workers = 2, .dtype = dtype};
    run.adjust = [&](PipelineOptions& pipeline) {
      pipeline.data.dataset =
          open_dataset(Synthetic{.shape = {3, 8, 8}, .classes = 4, .count = 24});
      pipeline.data.mean = {0.5, 0.4, 0.3};
      pipeline.data.std = {0.3, 0.2, 0.1};
      pipeline.stream.products = products;
      if (!bytes) pipeline.data.transform = [](const Tensor&, const RandomKey&) {};
    };
    const PipelineOptions pipeline = pipeline_of(on_gpu(run));
    const std::size_t pixels = std::size_t{3} * 8 * 8;
    EXPECT_EQ(sample_bytes(pipeline), bytes ? pixels : pixels * size_of(dtype));
    return digest(run, seed);
  };
  struct Case {
    DType dtype, products;
  };
  for (const auto& [dtype, products] : {Case{DType::f32, DType::f32}, Case{DType::f32, DType::bf16},
                                        Case{DType::f64, DType::f32}}) {
    SCOPED_TRACE(::testing::Message() << name_of(dtype) << ", " << name_of(products));
    EXPECT_EQ(digest_of(dtype, products, true, 1), digest_of(dtype, products, false, 2));
  }
}

TEST(CudaPipeline, AStageThatFailsMakesTheSameBits) {
  const std::string one = digest({.partition = {4}}, 1);
  EXPECT_EQ(digest({.partition = {2, 2},
                    .replicas = 2,
                    .faults = {{.actor = "stage/1/1", .step = 3, .micro_batch = 3}}},
                   2),
            one);
}

TEST(CudaPipeline, AdamWWithClippedGradientsMakesTheSameBits) {
  const std::string one = digest({.partition = {4}, .adjust = use_adamw}, 1);
  EXPECT_EQ(digest({.partition = {2, 2}, .replicas = 2, .adjust = use_adamw}, 2), one);
}

TEST(CudaPipeline, FrozenStagesMakeTheSameBits) {
  const std::string one = digest({.partition = {4}, .adjust = freeze_layers}, 1);
  EXPECT_EQ(digest({.partition = {1, 1, 2}, .replicas = 2, .adjust = freeze_layers}, 2), one);
}

TEST(CudaPipeline, ScaledLossesMakeTheSameBits) {
  TrainingRun run{.partition = {4}, .steps = 4, .adjust = [](PipelineOptions& pipeline) {
                    pipeline.loss.class_weights = std::vector<double>(4, 4096.0);
                    pipeline.rate.lr /= 4096;
                    pipeline.loss_scale = {.mode = LossScaling::dynamic,
                                           .init_scale = 0x1p122,
                                           .backoff_factor = 0x1p-6};
                  }};
  int skipped = 0;
  run.on_step = [&](const StepSeen& seen) { skipped += seen.skipped ? 1 : 0; };
  const std::string one = digest(run, 1);
  EXPECT_THAT(skipped, ::testing::AllOf(::testing::Gt(0), ::testing::Lt(4)));
  run.partition = {2, 2};
  run.replicas = 2;
  EXPECT_EQ(digest(run, 2), one);
}

TEST(CudaPipeline, AnySeedMakesTheSameBitsWithinTheBoundOfThePlanAndLeavesNothing) {
  TrainingRun run{.partition = {4}, .samples = 12, .steps = 2, .evaluates = false};
  const std::string one = digest(run, 1);
  const PipelineOptions pipeline = pipeline_of(on_gpu(run));
  const auto costs = measure_blocks(pipeline.model, pipeline.data.dataset.samples(), run.dtype,
                                    pipeline.stream, run.batch_size / run.micro_batches, 1);
  auto& allocator = CachingAllocator::of(emulated_gpu());
  const std::size_t before = allocator.counters().in_use_bytes;
  const std::vector<std::vector<std::size_t>> partitions = {{4}, {2, 2}, {1, 1, 2}, {1, 1, 1, 1}};
  std::map<std::string, double> largest_shares;  // of the bound: a peak depends on threads' timing
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    const auto& [name, schedule] = schedule_names[seed % std::size(schedule_names)];
    run.partition = partitions[seed % partitions.size()];
    run.replicas = 1 + seed % 2;
    run.schedule = schedule;
    run.evaluates = seed % 3 == 0;
    run.snapshot_every = seed % 5 == 0 ? 1 : 0;
    run.faults.clear();
    if (seed % 7 == 0) run.faults = {{.actor = "stage/0", .step = 1, .micro_batch = seed % 4}};
    SCOPED_TRACE(::testing::Message() << name << ", " << run.partition.size() << " stages, "
                                      << run.replicas << " replicas, seed " << seed);
    allocator.reset_peak();
    EXPECT_EQ(digest(run, seed), one);
    const std::size_t bound = bound_of(pipeline_of(on_gpu(run)), costs);
    const std::size_t peak = allocator.counters().peak_bytes - before;
    EXPECT_LE(peak, bound);
    const double share = static_cast<double>(peak) / static_cast<double>(bound);
    for (const std::string& of : {std::string(name), std::to_string(run.partition.size())})
      largest_shares[of] = std::max(largest_shares[of], share);
    EXPECT_EQ(allocator.counters().in_use_bytes, before);
  }
  for (const auto& [of, share] : largest_shares)
    EXPECT_GE(share, 0.3) << "the bound is loose: " << of;
}

}  // namespace
}  // namespace troupe::testing
