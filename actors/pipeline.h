#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/checkpoint_writer.h"
#include "actors/loader.h"
#include "actors/monitor.h"
#include "actors/profile.h"
#include "actors/schedule.h"
#include "actors/stage.h"
#include "runtime/flow/graph.h"

namespace troupe {

/// The samples of a pipeline, and how they are prepared.
struct PipelineData {
  Dataset dataset;
  std::vector<Augment> augment = {};  ///< of training samples, in this order; tests have none
  std::vector<double> mean = {0.0}, std = {1.0};  ///< as in TransformOptions
  bool shuffle = true;
  bool drop_last = true;  ///< leave out the samples that do not fill a batch
  int workers = 1;        ///< threads that prepare micro-batches for each replica; 0: the loader
  int prefetch = 4;       ///< micro-batches prepared ahead of the edge's slots
};

/// A training run as a pipeline of stages times replicas. Says each thing once: what its actors
/// are told is worked out from it (`loader_options`, `timeline_of`, `learning_rate_options`).
struct PipelineOptions {
  ModelSource model;
  DType dtype = DType::f32;  ///< of samples, weights and all between
  Stream stream;             ///< of every stage
  std::uint64_t seed = 1;  ///< of weights, dropout, the order of samples and how they are augmented
  std::vector<std::size_t> partition{SIZE_MAX};  ///< blocks of each stage
  std::uint32_t replicas = 1;
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  /// Most bytes of a gradient bucket (actors/gradient_buckets.h); PyTorch's default.
  std::size_t bucket_cap_bytes = std::size_t{25} << 20;
  /// Steps after which a sum of gradients is applied: 0 for synchronous aggregation. Any other
  /// number lets the sums of a step be made while the next ones compute.
  std::uint32_t staleness = 0;
  std::uint32_t processes = 1;  ///< to spread stages and replicas over; at most their product

  PipelineData data;
  std::int64_t batch_size = 64;     ///< samples of a step, over all replicas
  std::uint32_t micro_batches = 1;  ///< of a step, over all replicas
  std::int64_t epochs = 1;
  std::uint32_t max_steps = 0;    ///< ends the run earlier, at the same rates; 0: does not
  bool evaluates = true;          ///< count the test set after each epoch and at the end
  std::uint32_t first_step = 0;   ///< steps that are whole already (a resumed run)
  bool evaluates_first = false;   ///< as in Timeline
  std::vector<StatePtr> initial;  ///< by stage; empty: drawn from the seed

  LearningRateOptions rate;  ///< its counts of steps are worked out
  OptimizerPtr optimizer = default_optimizer();
  bool stop_on_nan = true;  ///< fail at a loss that is not finite, before its step counts

  std::function<void(const StepSeen&)> on_step;  ///< all three as in MonitorOptions
  std::function<void(const EvaluationProgress&)> on_evaluation_progress;
  std::function<void(const EvaluationSeen&)> on_evaluation;
  std::optional<CheckpointWriterOptions> writer;  ///< `stages` and `options` are set
  std::vector<BlockProfile> profile;              ///< for the sizes of slots; empty: not known
  /// Puts something around a stage's arithmetic, to time, slow or check it; empty: nothing.
  std::function<ProgramFactory(std::size_t stage, ProgramFactory)> around;
};

/// The model, built for the samples of the data set.
Model model_of(const PipelineOptions& options);

/// What the loader of a replica is told. Throws nothing; Sampler and SampleTransform check it.
LoaderOptions loader_options(const PipelineOptions& options, std::uint32_t replica);

/// Which steps the run has, and which of them end epochs. Throws Error (bad_options) where the
/// numbers make no batch.
Timeline timeline_of(const PipelineOptions& options);

/// The learning rates of the run, over all of its epochs also where max_steps ends it earlier.
LearningRateOptions learning_rate_options(const PipelineOptions& options);

/// Of a step; the replica that has most, where they do not divide.
std::size_t micro_batches_of_a_replica(const PipelineOptions& options);
/// How each replica of a stage orders its work.
StageSchedule schedule_of(const PipelineOptions& options, std::size_t stage);

/// The blocks of a stage, [first, last); `last` is SIZE_MAX where the partition says "all that
/// follow".
struct BlockRange {
  std::size_t first = 0, last = 0;
};
BlockRange blocks_of(const PipelineOptions& options, std::size_t stage);

/// The process of a replica of a stage: neighbours in the order stage 0's replicas, stage 1's, …,
/// in equal numbers as far as that goes. So replicas of a stage, which exchange gradients, are near
/// each other, and a pipeline reaches over hosts where it must.
std::uint32_t process_of(const PipelineOptions& options, std::size_t stage, std::uint32_t replica);

/// Wires loaders, stages, losses, reducers, monitor and writer, and places them: a loader with its
/// first stage, a loss with its last one, monitor and writer in process 0. Actors are called
/// "loader", "stage/0", "loss", "reducer/0", "monitor", "writer"; with several replicas "stage/0/1"
/// is replica 1 of stage 0, and where these are in several processes "reducer/0/1" is the second of
/// stage 0's reducers. A stage of several gradient buckets has reducers for each: "reducer/0.2" is
/// that of bucket 2, "reducer/0.2/1" the second of them. Throws Error (bad_options) for more
/// processes than replicas of stages.
Graph build_pipeline(const PipelineOptions& options);

/// Name of a replica's actor: "stage/0", or "stage/0/1" when there are several replicas.
std::string replica_name(const std::string& base, std::uint32_t replica, std::uint32_t replicas);

}  // namespace troupe
