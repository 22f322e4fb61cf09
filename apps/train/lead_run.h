#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/train/training.h"
#include "apps/train/world_run.h"
#include "apps/verbs.h"

namespace troupe {

class RunLog;

/// The arguments of `troupe train`.
struct TrainArguments {
  std::filesystem::path options;
  std::vector<std::string> overrides;
  std::optional<std::filesystem::path> output;
  std::string restart;
};

/// One process's part of a training run.
struct TrainCommand {
  const TrainArguments& arguments;
  const Invocation& call;
  Options options;
  std::stop_token stop;
  WorldRun* world = nullptr;               ///< null: a run of one process
  std::function<void()> on_begin = [] {};  ///< when all processes are connected
};

/// Connects to the other processes of the run, if there are any, and runs the graph. Clears
/// `pipeline.initial`, which need not stay in memory. With log.level debug it writes the edges and
/// their messages to `log`.
RunReport run_graph(const TrainCommand& command, PipelineOptions& pipeline,
                    const std::function<void(const FailureReport&)>& on_failure,
                    RunLog* log = nullptr);

/// Ends the process on a request to stop before the run has begun: there is nothing to save.
[[noreturn]] void stop_before_the_run();

/// Whether there are steps left to train; otherwise the run can only evaluate.
bool has_steps_left(const PipelineOptions& pipeline);

/// The number of this process, and of how many.
ProcessOptions process_options(const WorldRun* world);

/// The run in its leading process (rank 0, or the only one): output folder, log, terminal and
/// checkpoints. `agree` calls `decide` and sends its result to the other processes. Returns the
/// exit code. Throws Error, after logging it.
int lead_run(const TrainCommand& command,
             const std::function<void(const std::function<Agreement()>& decide)>& agree);

}  // namespace troupe
