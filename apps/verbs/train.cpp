// troupe train: trains as an options file says.
#include <fmt/format.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/load_options.h"
#include "apps/options_table.h"
#include "apps/output/folder.h"
#include "apps/output/trace.h"
#include "apps/run_log.h"
#include "apps/stop_signal.h"
#include "apps/training.h"
#include "apps/verbs.h"
#include "runtime/error.h"
#include "runtime/file/checkpoint_folder.h"

namespace troupe {
namespace {

struct TrainArguments {
  std::filesystem::path options;
  std::vector<std::string> overrides;
  std::optional<std::filesystem::path> output;
  std::string restart;
};

/// Where to go on from, and the folder to go on in.
struct Resumption {
  StartingPoint start;
  std::optional<std::filesystem::path> output;
};

bool holds_run(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "options_restart.yaml") ||
         std::filesystem::exists(folder / "checkpoints");
}

// `auto`: the newest whole checkpoint of the output folder (of the newest one without -o); where
// there is none, the run begins at step 0. Otherwise a checkpoint or an output folder by path. A
// run goes on in its own output folder; from a checkpoint's folder it goes on in a new one.
Resumption find_resumption(const TrainArguments& arguments) {
  if (arguments.restart.empty()) {
    if (arguments.output && holds_run(*arguments.output))
      throw Error(ErrorCode::usage,
                  fmt::format("{} holds a run already", arguments.output->string()),
                  "go on with it by --restart auto, or choose another folder with -o");
    return {{}, arguments.output};
  }
  if (arguments.restart != "auto") {
    const std::filesystem::path path = arguments.restart;
    const bool own_folder = !arguments.output && holds_run(path);
    return {read_starting_point(path), own_folder ? path : arguments.output};
  }
  const auto folder = arguments.output ? arguments.output : newest_output();
  const bool any = folder && std::filesystem::exists(*folder / "checkpoints") &&
                   !list_checkpoints(*folder / "checkpoints").empty();
  if (!any) {
    fmt::print("no checkpoint to go on from in {}: beginning at step 0{}\n",
               arguments.output ? arguments.output->string() : "outputs/",
               arguments.output ? "" : " (a run with -o DIR is gone on with by -o DIR as well)");
    return {{}, arguments.output};
  }
  return {read_starting_point(*folder), folder};
}

// Newest means most steps: checkpoints of steps that this run has still to make would be taken for
// its own.
void check_no_later_checkpoints(const std::filesystem::path& folder, std::uint32_t steps) {
  if (!std::filesystem::exists(folder / "checkpoints")) return;
  for (const CheckpointInfo& found :
       list_checkpoints(folder / "checkpoints", CheckpointCheck::content))
    if (found.whole && found.step > steps)
      throw Error(ErrorCode::usage,
                  fmt::format("{} holds {}, which is later than step {}", folder.string(),
                              found.folder.filename().string(), steps),
                  "go on from that one by --restart auto, or choose another folder with -o");
}

void print_heading(const Options& options, const PipelineOptions& pipeline,
                   const OutputFolder& folder, const StartingPoint& start,
                   const Timeline& timeline) {
  fmt::print("{}\n", run_heading(options, pipeline));
  fmt::print("output in {}\n", folder.path().string());
  if (!start.checkpoint.empty())
    fmt::print("going on from {} at step {} of {}\n", start.checkpoint.string(), start.steps,
               timeline.steps);
}

// Marks the first step for whoever measures how long a process takes to reach it.
void note_first_step(const StepSeen& seen, std::uint32_t first) {
  if (seen.step == first + 1 && std::getenv("TROUPE_EXIT_AFTER_FIRST_STEP")) std::_Exit(exit_done);
}

int conclude(const RunReport& report, RunLog& log, const OutputFolder& folder,
             const Options& options) {
  log.finish();
  if (options.trace) {
    if (const Status written = write_trace(folder.trace(), report); !written) throw written.error();
  }
  fmt::print("\n{}\n", time_split_table(report));
  if (log.checkpoint_error()) throw *log.checkpoint_error();
  if (report.stopped) {
    fmt::print("stopped after step {}; go on with the same command and --restart {}\n",
               report.steps, folder.path().string());
    return exit_stopped;
  }
  fmt::print("checkpoint in {}\n", (folder.checkpoints() / checkpoint_name(report.steps)).string());
  if (const auto evaluation = log.last_evaluation()) fmt::print("{}\n", accuracy_line(*evaluation));
  return exit_done;
}

int train(const TrainArguments& arguments) {
  std::signal(SIGPIPE, SIG_IGN);  // `troupe train | head` ends the picture, not the training
  std::stop_source stop;
  const StopSignal on_signal([&stop] { stop.request_stop(); });
  const Options options = load_options(arguments.options, arguments.overrides);
  Resumption resumption = find_resumption(arguments);
  check_continues(options, resumption.start);
  PipelineOptions pipeline = pipeline_options(options, resumption.start);
  resumption.start.tensors.clear();  // the stages have their states now
  const Timeline timeline = timeline_of(pipeline);
  const std::uint32_t first = timeline.first;
  if (first >= timeline.steps) {
    fmt::print("nothing left to train: {} has {} of {} steps\n",
               resumption.start.checkpoint.string(), first, timeline.steps);
    return exit_done;
  }
  if (resumption.output) check_no_later_checkpoints(*resumption.output, first);
  const auto folder = OutputFolder::create(resumption.output);
  folder.write_options(resolved_yaml(options));
  print_heading(options, pipeline, folder, resumption.start, timeline);

  RunLog log(options, folder, timeline, learning_rate_options(pipeline));
  for (const std::string& warning : warnings(options, resumption.start))
    log.note("warning: " + warning);
  const std::stop_callback tell_stopping(stop.get_token(), [&log] {
    log.note("stopping after this step, with a checkpoint; a second signal ends at once");
  });
  pipeline.on_step = [&](const StepSeen& seen) {
    note_first_step(seen, first);
    log.step(seen);
  };
  pipeline.on_evaluation = [&](const EvaluationSeen& seen) { log.evaluation(seen); };
  pipeline.writer = CheckpointWriterOptions{
      .write = [&](std::uint32_t step, const std::vector<Snapshot>& snapshots) -> Status {
        const auto written =
            write_training_checkpoint(folder.checkpoints(), options, timeline, step, snapshots);
        if (!written) return written.error();
        return success();
      },
      .on_checkpoint = [&](const CheckpointSeen& seen) { log.checkpoint(seen); }};

  const Graph graph = build_pipeline(pipeline);
  RunOptions run_with = run_options(options, pipeline);
  run_with.stop = stop.get_token();
  run_with.on_failure = [&](const FailureReport& failure) { log.failure(failure); };
  const RunReport report = run(graph, run_with);
  return conclude(report, log, folder, options);
}

}  // namespace

void add_train_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb = app.add_subcommand("train", "Train as an options file says");
  verb->add_option("FILE", arguments->options, "options file; see `troupe options`")->required();
  verb->add_option("-r,--override", arguments->overrides, "KEY=VALUE in place of the file's")
      ->allow_extra_args(false);
  verb->add_option("-o,--output", arguments->output, "folder to write to (outputs/DATE/TIME)");
  verb->add_option("--restart", arguments->restart,
                   "go on from a checkpoint or output folder; auto: the newest whole one");
  verb->callback([arguments, &chosen] { chosen = [arguments] { return train(*arguments); }; });
}

}  // namespace troupe
