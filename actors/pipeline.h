#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/block_costs.h"
#include "actors/checkpoint_writer.h"
#include "actors/loader.h"
#include "actors/monitor.h"
#include "actors/schedule.h"
#include "actors/stage.h"
#include "ops/loss.h"
#include "runtime/flow/graph.h"

namespace troupe {

/// The data set of a pipeline, and how its samples are prepared.
struct PipelineData {
  Dataset dataset;
  std::vector<Augment> augment = {};              ///< of training samples, in this order
  std::vector<double> color_jitter = {};          ///< as in TransformOptions
  std::vector<double> mean = {0.0}, std = {1.0};  ///< as in TransformOptions
  OwnTransform transform = {};                    ///< of training samples, after all others
  MixOptions mix = {};                            ///< mix-up and cut-mix of training samples
  bool shuffle = true;
  bool drop_last = true;  ///< leave out the samples that do not fill a batch
  int workers = 1;  ///< threads that prepare micro-batches, for each loader and evaluate(); 0: none
  int prefetch = 4;  ///< micro-batches prepared ahead of the edge's slots
  /// On a device other than the CPU, loaders keep all images in its memory and augment them there,
  /// to the same bits; evaluate() does not. What they demand: actors/data/resident_images.h.
  bool resident = false;
};

/// A training run as a pipeline of stages times replicas. It states each value once, and the
/// options of its actors are computed from it (`loader_options`, `timeline_of`,
/// `learning_rate_options`).
struct PipelineOptions {
  ModelSource model;
  DType dtype = DType::f32;  ///< of normalised samples, weights and activations
  Stream stream;             ///< of every stage, loss and reducer; its device, of loaders too
  /// Whether stages run their passes as graphs of the device (CapturedProgram); without effect on
  /// devices that have none. Not with staleness.
  bool cuda_graphs = false;
  std::uint64_t seed = 1;  ///< of weights, dropout, sample order and augmentation
  std::vector<std::size_t> partition{SIZE_MAX};  ///< blocks of each stage; SIZE_MAX: all others
  std::uint32_t replicas = 1;
  ScheduleKind schedule = ScheduleKind::one_forward_one_backward;
  /// Largest gradient bucket (actors/gradient_buckets.h). The default is PyTorch's.
  std::size_t bucket_cap_bytes = std::size_t{25} << 20;
  /// Steps after which a sum of gradients is applied; 0: synchronous aggregation. With any other
  /// number, reducers sum the gradients of a step while later steps compute.
  std::uint32_t staleness = 0;
  std::uint32_t processes = 1;  ///< that share stages and replicas; at most stages × replicas

  PipelineData data;
  std::int64_t batch_size = 64;     ///< samples of a step, over all replicas
  std::uint32_t micro_batches = 1;  ///< of a step, over all replicas
  std::int64_t epochs = 1;
  std::uint32_t max_steps = 0;   ///< ends the run earlier, at the same learning rates; 0: no limit
  bool evaluates = true;         ///< evaluate after each epoch and at the end
  std::uint32_t first_step = 0;  ///< committed steps of a run that is resumed
  bool evaluates_first = false;  ///< as in Timeline
  /// By stage; null for one that is in another process. Empty: random from the seed. The graph
  /// holds them until the first commit. The options need them only to build it.
  std::vector<StatePtr> initial;

  LearningRateOptions rate;  ///< its numbers of steps are set from the data
  Optimizer optimizer = default_optimizer();
  LossScaleOptions loss_scale;  ///< not with staleness
  EarlyStopping stopping;       ///< needs `evaluates`
  LossFunction loss;            ///< has to fit the data set's targets and the model's outputs
  bool stop_on_nan = true;      ///< as in MonitorOptions

  std::function<void(const StepSeen&)> on_step;  ///< all three as in MonitorOptions
  std::function<void(const EvaluationProgress&)> on_evaluation_progress;
  std::function<void(const Evaluation&)> on_evaluation;
  std::optional<CheckpointWriterOptions> writer;  ///< build_pipeline completes it
  std::vector<BlockCosts> block_costs;            ///< gives the slots their sizes; empty: unknown
  /// Wraps the program of a stage, to time or check it; empty: no wrapper.
  std::function<std::unique_ptr<StageProgram>(std::size_t stage, std::unique_ptr<StageProgram>)>
      around;
};

/// The model, built for the samples of the data set.
Model model_of(const PipelineOptions& options);

/// The parameters that no group of the optimizer trains.
Freezes freezes_of(const PipelineOptions& options);

/// Throws Error{bad_options} where loss, targets and outputs do not fit (ops/loss.h), or
/// evaluations are compared by an accuracy that the loss does not have.
void check_loss(const PipelineOptions& options);

/// How samples are prepared for the first stage.
TransformOptions transform_options(const PipelineOptions& options);

/// Whether loaders keep the images on a device: not on the CPU, whatever PipelineData::resident is.
bool has_resident_images(const PipelineOptions& options);

/// The device to which loaders send samples: that of the stages if images are resident or the model
/// begins with a convolution. Otherwise the CPU, where an embedding checks indices; the first stage
/// then copies them.
Device samples_device(const PipelineOptions& options);

/// The options of a replica's loader, without `device` and `resident`, which build_pipeline adds.
/// Throws nothing; Sampler and BatchMaker check them.
LoaderOptions loader_options(const PipelineOptions& options, std::uint32_t replica);

/// The steps of the run, and which of them end epochs. Throws Error{bad_options} if the numbers
/// make no batch.
Timeline timeline_of(const PipelineOptions& options);

/// The learning rates of the run. They span all epochs, also if `max_steps` ends the run earlier.
LearningRateOptions learning_rate_options(const PipelineOptions& options);

/// PipelineOptions::loss_scale with the mode dynamic or fixed; none if losses are not scaled.
std::optional<LossScaleOptions> loss_scale_options(const PipelineOptions& options);

/// The largest number of micro-batches of a step on any replica.
std::size_t micro_batches_of_a_replica(const PipelineOptions& options);
/// The schedule of each replica of a stage.
StageSchedule schedule_of(const PipelineOptions& options, std::size_t stage);

/// The number of blocks of each stage: PipelineOptions::partition with a number for SIZE_MAX.
/// Throws Error{bad_options} unless each stage has a block and the stages have all blocks of the
/// model.
std::vector<std::size_t> partition_of(const PipelineOptions& options);

/// The blocks of a stage, all within the model. A partition gives each stage one range.
std::vector<BlockRange> blocks_of(const PipelineOptions& options, std::size_t stage);

/// The process of a replica of a stage. Processes take the replicas of stage 0, then of stage 1, …,
/// in numbers that differ by one at most. So the replicas of a stage, which exchange gradients,
/// share a process or a host if they can.
std::uint32_t process_of(const PipelineOptions& options, std::size_t stage, std::uint32_t replica);

/// Connects loaders, stages, losses, reducers, monitor and writer, and places them: a loader with
/// its first stage, a loss with its last one, monitor and writer in process 0. Actors are called
/// "loader", "stage/0", "loss", "reducer/0", "gradient_norm", "monitor", "writer". With several
/// replicas, "stage/0/1" is replica 1 of stage 0. If its replicas are in several processes,
/// "reducer/0/1" is the second reducer of stage 0. A stage of several gradient buckets has reducers
/// for each: "reducer/0.2" is that of bucket 2, "reducer/0.2/1" the second of them. Throws
/// Error{bad_options} if there are more processes than stages × replicas.
Graph build_pipeline(const PipelineOptions& options);

}  // namespace troupe
