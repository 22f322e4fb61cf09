#pragma once
#include <filesystem>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/train/training.h"
#include "apps/train/world_run.h"

namespace troupe {

/// What `troupe train` is asked for.
struct TrainArguments {
  std::filesystem::path options;
  std::vector<std::string> overrides;
  std::optional<std::filesystem::path> output;
  std::string restart;
  std::string command_line;  ///< for the log
};

/// One process's part of a training run.
struct TrainCommand {
  const TrainArguments& arguments;
  Options options;
  std::stop_token stop;
  WorldRun* world = nullptr;               ///< null: this process is all there is
  std::function<void()> on_begin = [] {};  ///< when all processes are connected
};

/// Joins the other processes, if there are any, and trains.
RunReport run_graph(const TrainCommand& command, const PipelineOptions& pipeline,
                    const std::function<void(const FailureReport&)>& on_failure);

/// Whether there is anything to train, and so to write: else the test set is counted, and no more.
bool has_steps_left(const PipelineOptions& pipeline);

/// Which of the run's processes this one is.
ProcessOptions process_options(const WorldRun* world);

/// The run from what it decides to its last line, in the process that leads: output folder, log,
/// screen, checkpoints. `agree` calls what it is given, and hears what the other processes must
/// know. Returns the exit code; throws Error, which the log has then.
int lead_run(const TrainCommand& command,
             const std::function<void(const std::function<Agreement()>& decide)>& agree);

}  // namespace troupe
