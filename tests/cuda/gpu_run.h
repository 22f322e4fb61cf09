#pragma once
// Whole training runs on the GPU of the tests.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "actors/memory_bound.h"
#include "emulated.h"
#include "emulator/emulation.h"
#include "emulator/violations.h"
#include "tests/unit/actors/training_run.h"

namespace troupe::testing {

inline TrainingRun on_gpu(TrainingRun run) {
  run.scheduling = Scheduling::threads;
  run.adjust = [adjust = run.adjust](PipelineOptions& pipeline) {
    if (adjust) adjust(pipeline);
    pipeline.stream.device = emulated_gpu();
  };
  return run;
}

/// The emulator must have found nothing.
inline TrainingResult trained_on_gpu(const TrainingRun& run, std::uint32_t seed) {
  const cuda_on_cpu::Emulation emulation({.seed = seed, .checked_places = 61});
  TrainingResult result = train(on_gpu(run));
  EXPECT_THAT(cuda_on_cpu::take_violations(), ::testing::IsEmpty());
  return result;
}
/// Of the weights at the end.
inline std::string digest_on_gpu(const TrainingRun& run, std::uint32_t seed) {
  return trained_on_gpu(run, seed).digest;
}

/// What the plan of a run says that its process may hold in the device's memory.
inline std::size_t bound_of(PipelineOptions pipeline, const std::vector<BlockCosts>& costs) {
  pipeline.writer = CheckpointWriterOptions{};
  pipeline.block_costs = costs;
  return memory_bound(pipeline, build_pipeline(pipeline), 0).total(MemoryBound::Place::device);
}

}  // namespace troupe::testing
