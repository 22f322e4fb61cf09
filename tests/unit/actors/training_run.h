#pragma once
// Small training runs through whole graphs of actors, and what they leave behind.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "actors/pipeline.h"
#include "runtime/flow/run.h"
#include "runtime/tensor/named_tensor.h"

namespace troupe::testing {

/// A run, with everything that may differ between runs of the same bits.
struct TrainingRun {
  std::uint64_t seed = 1;
  std::string model = "mnist_cnn";  ///< or wide_resnet, resnet18 or cifar_cnn, all in small
  double dropout = 0.1;             ///< of wide_resnet
  std::vector<std::size_t> partition{2, 2};
  std::uint32_t replicas = 1;
  std::uint32_t micro_batches = 4;
  std::int64_t batch_size = 8;
  std::int64_t samples = 24;  ///< three steps an epoch; a sixth as many for testing
  bool drop_last = true;
  std::uint32_t steps = 6;
  bool evaluates = true;
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  int workers = 0;
  DType dtype = DType::f32;
  std::uint32_t snapshot_every = 0;

  Scheduling scheduling = Scheduling::deterministic;
  int threads = 2;
  std::vector<FaultOptions> faults;
  std::uint64_t order = 1;                 ///< seed of the order in which messages are delivered
  std::function<bool(bool idle)> outside;  ///< as in RunOptions
  RestartBudget restarts;
  bool trace = false;
  std::function<std::unique_ptr<StageProgram>(std::size_t stage, std::unique_ptr<StageProgram>)>
      around;
  std::function<void(PipelineOptions&)> adjust;  ///< what this struct has no member for
  std::stop_token stop;
  std::function<void(const StepSeen&)> on_step;
  std::function<Status(std::uint32_t step)> on_write;  ///< what writing a checkpoint meets

  /// Where to begin: tensors as a checkpoint holds them, after so many steps.
  std::vector<NamedTensor> from;
  std::uint32_t first_step = 0;
};

struct TrainingResult {
  std::string digest;  ///< of all stages' weights and buffers at the end
  std::vector<StepSeen> steps;
  std::vector<Evaluation> evaluations;
  std::vector<CheckpointSeen> checkpoints;
  std::map<std::uint32_t, std::vector<NamedTensor>> written;  ///< with optimizer state, by step
  std::vector<FailureReport> failures;
  RunReport report;
};

/// Of runs that choose none: the CPU, or the delayed device (delayed_device.h) if
/// TROUPE_TEST_DEVICE is "delayed" in the environment. train() then draws another order of its work
/// for each run, and expects no violation.
Device test_device();
PipelineOptions pipeline_of(const TrainingRun& run);
/// Another way to change the weights, for TrainingRun::adjust: AdamW of clipped gradients, smoothed
/// labels and a polynomial rate.
void use_adamw(PipelineOptions& pipeline);
/// The same: the first two of mnist_cnn's four blocks are frozen, and gradients are clipped.
void freeze_layers(PipelineOptions& pipeline);
/// The same: gradients of thousands, which overflow in f32 with loss scales above about 2^115, as
/// in some of the steps.
void scale_losses(PipelineOptions& pipeline);
TrainingResult train(const TrainingRun& run);

/// "1: 2.302 0.25 of 8", one for each step that was reported, then the evaluations.
std::vector<std::string> reported(const TrainingResult& result);

}  // namespace troupe::testing
