#pragma once
// Creates a training run from its options, for `train` and `plan`.

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "actors/pipeline.h"
#include "apps/options/options.h"
#include "apps/train/work_distribution.h"
#include "runtime/flow/run.h"

namespace troupe {

/// How many samples a data set has as a run reads it; 0: not known.
struct SampleCounts {
  std::int64_t train = 0, test = 0;
};
SampleCounts sample_counts(const DatasetSummary& data);
/// Those of the run that wrote a checkpoint; `run` is its Manifest::run.
SampleCounts sample_counts(const std::map<std::string, std::string>& run);

/// Where a run begins: at step 0, or from a checkpoint with the optimizer's state.
struct StartingPoint {
  std::filesystem::path checkpoint;  ///< empty: at step 0
  std::uint32_t steps = 0;
  std::string options;                 ///< the resolved options of the run that wrote it
  std::string processor;               ///< that it ran on (Backend::fingerprint); empty: unknown
  std::vector<std::size_t> partition;  ///< of the run that wrote it; empty: not known
  SampleCounts samples;                ///< of its data set
  std::filesystem::path
      weights;  ///< without a checkpoint: what model.weights led to; empty: find it
};

/// Reads a checkpoint to resume a run from. `path` is a checkpoint or an output folder.
StartingPoint read_starting_point(const std::filesystem::path& path);

/// What model.weights leads to: a file, or the newest checkpoint of a folder. A resumed run does
/// not need it. Throws Error{bad_options} if it does not exist.
std::filesystem::path initial_weights(const Options& options);

/// The device of a stream of the run, by the options. Throws Error where there is none, or where it
/// does not compute products as the stream says.
void set_device(const Options& options, Stream& stream, std::uint32_t processes);

/// One of the processes of a run.
struct ProcessOptions {
  std::uint32_t process = 0;
  std::uint32_t processes = 1;
};

/// All options of the pipeline except its callbacks and checkpoint writer. Opens the data set,
/// chooses the partition, and loads the weights of the stages in this process. If the options give
/// no partition and the checkpoint has the same number of stages, it uses the partition of the
/// checkpoint. Throws Error.
PipelineOptions pipeline_options(const Options& options, const StartingPoint& start,
                                 const ProcessOptions& here = {});

/// Reads all tensors in the file of the model, if it is one of a file. Throws Error where the file
/// is damaged.
void check_model_file(const ModelSource& model);

/// Measures each block, for memory bounds, schedules and a balanced partition. Of micro-batches
/// that would take more than some seconds, it measures a part and scales the costs.
void measure(PipelineOptions& pipeline);

/// Throws Error{bad_options} if the options change the meaning of a checkpoint's position (the
/// samples, their order or the batch size), or name a different optimizer, or a file with another
/// graph.
void check_continues(const Options& options, const StartingPoint& start);

/// Whether the model has batch norms.
bool has_batch_norms(const PipelineOptions& pipeline);

/// The limits of distributing a run with these options over processes.
WorkLimits work_limits(const Options& options);

/// The cores of this process, or its part of those of its node if processes share them.
int cores_of_process();

/// Threads for actors: those of the options, or one for each stage and replica of the process, at
/// most its cores.
int actor_threads(const Options& options, std::uint32_t processes = 1,
                  int cores = cores_of_process());

/// Threads of a kernel: those of the options, or the cores of the process, divided by its actor
/// threads; at least one, at most OMP_NUM_THREADS.
int intra_op_threads(const Options& options, std::uint32_t processes = 1,
                     int cores = cores_of_process());

/// Cores beyond the threads of actors and kernels that `auto` would use; 0 if there are none.
int idle_cores(const Options& options, std::uint32_t processes = 1);

/// Cores that this process may use by its affinity, its quota and, for a single task, Slurm's
/// allocation.
int available_cores();

/// The resolved options as the output folder keeps them, with the partition that `auto` has found.
std::string options_for_restart(const Options& options, const std::vector<std::size_t>& partition);

/// What the command calls the throughput of these samples: images are those of u8.
std::string_view throughput_unit(const SampleSpec& samples);

/// What the data set holds, in one line: "csv: 480 training and 120 test samples, 4 features,
/// target species: 0 setosa, 1 virginica".
std::string data_heading(const Dataset& data);

/// ", on cuda:0 (NVIDIA H100 …)", with what decides the bits there; nothing for the CPU.
std::string device_heading(Device device);

/// Whether the device can round products of f32 to TF32.
bool has_tf32(Device device);

/// "3 + 2 blocks": how many each stage has.
std::string partition_text(const std::vector<std::size_t>& partition);

/// Model, partition, batches and threads in three lines, for the top of a screen.
std::string run_heading(const Options& options, const PipelineOptions& pipeline);

RunOptions run_options(const Options& options, const PipelineOptions& pipeline);

/// Writes `folder`/step_<step> from the stages' snapshots and from the shards of other processes,
/// with the resolved options beside them, and the partition of the pipeline, which a run from it
/// keeps. Removes checkpoints that do not stay; `best` is the one that checkpoint.keep_best keeps.
Result<std::filesystem::path> write_training_checkpoint(
    const std::filesystem::path& folder, const Options& options, const Timeline& timeline,
    std::uint32_t step, const std::vector<Snapshot>& snapshots,
    const std::vector<ShardInfo>& elsewhere, const PipelineOptions& pipeline,
    std::optional<std::int64_t> best = {});

}  // namespace troupe
