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
#include "apps/count_test_set.h"
#include "apps/load_options.h"
#include "apps/options_table.h"
#include "apps/output/folder.h"
#include "apps/output/trace.h"
#include "apps/output/verdict.h"
#include "apps/run_log.h"
#include "apps/stop_signal.h"
#include "apps/training.h"
#include "apps/verbs.h"
#include "apps/weights_file.h"
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

void tell_heading(const Options& options, const PipelineOptions& pipeline,
                  const OutputFolder& folder, const StartingPoint& start,
                  const Timeline& timeline) {
  fmt::print("{}\n", run_heading(options, pipeline));
  fmt::print("output in {}\n", folder.path().string());
  if (!start.checkpoint.empty())
    fmt::print("going on from {} at step {} of {}\n", start.checkpoint.string(), start.steps,
               timeline.steps);
}

void record_begin(RunLog& log, const std::string& command_line, const StartingPoint& start,
                  const Timeline& timeline) {
  log.record(fmt::format("troupe {} begins: {}", TROUPE_VERSION, command_line));
  log.record(start.checkpoint.empty()
                 ? fmt::format("{} steps to go", timeline.steps)
                 : fmt::format("{} of {} steps to go, from {}", timeline.steps - start.steps,
                               timeline.steps, start.checkpoint.string()));
}

// A run that goes on in its folder, after an epoch that ended before its test set was counted.
bool is_evaluation_due(const Resumption& resumption, const Timeline& timeline) {
  const std::uint32_t done = resumption.start.steps;
  return resumption.output && done > 0 && done <= timeline.steps &&
         timeline.evaluates_after(done - 1) &&
         lacks_evaluation(*resumption.output / "train.csv", done);
}

// Marks the first step for whoever measures how long a process takes to reach it.
void note_first_step(const StepSeen& seen, std::uint32_t first) {
  if (seen.step == first + 1 && std::getenv("TROUPE_EXIT_AFTER_FIRST_STEP")) std::_Exit(exit_done);
}

RunShape shape_of(const Options& options, const PipelineOptions& pipeline) {
  return {
      .micro_batches = options.train.micro_batches / options.parallel.data,
      .batch_size = options.train.batch_size / options.parallel.data,
      .replicas = options.parallel.data,
      .actor_threads = actor_threads(options),
      .idle_cores = available_cores() - actor_threads(options) * options.parallel.intra_op_threads,
      .workers = options.data.workers,
      .cut = pipeline.cut,
      .cut_by_hand = !options.parallel.cut.empty()};
}

int conclude(const RunReport& report, RunLog& log, const OutputFolder& folder,
             const Options& options, const RunShape& shape) {
  log.finish();
  if (options.trace) {
    if (const Status written = write_trace(folder.trace(), report); !written) throw written.error();
  }
  fmt::print("\n{}\n", time_split_table(report));
  if (const std::string judged = verdict(report, shape); !judged.empty())
    fmt::print("{}\n\n", judged);
  if (log.checkpoint_error()) throw *log.checkpoint_error();
  const double seconds = std::chrono::duration<double>(report.wall).count();
  if (report.stopped) {
    log.record(
        fmt::format("ended: stopped on request after step {}, {:.1f} s", report.steps, seconds));
    fmt::print("stopped after step {}; go on with the same command and --restart {}\n",
               report.steps, folder.path().string());
    return exit_stopped;
  }
  log.record(fmt::format("ended: done, {} steps, {:.1f} s", report.steps, seconds));
  fmt::print("checkpoint in {}\n", (folder.checkpoints() / checkpoint_name(report.steps)).string());
  if (const auto evaluation = log.last_evaluation()) fmt::print("{}\n", accuracy_line(*evaluation));
  return exit_done;
}

// All steps are made; only the last count of the test set was cut short.
int evaluate_only(const Options& options, const StartingPoint& start, RunLog& log) {
  const EvaluationReport counted =
      count_test_set(options, read_weights(start.checkpoint).tensors, start.steps);
  log.evaluation({.step = start.steps,
                  .loss = counted.loss,
                  .correct = counted.correct,
                  .count = counted.count});
  log.finish();
  log.record("ended: done, the test set was all that was left");
  fmt::print("{}\n", accuracy_line(counted));
  return exit_done;
}

int run_training(const Options& options, PipelineOptions& pipeline, const OutputFolder& folder,
                 const Timeline& timeline, const std::stop_token& stop, RunLog& log) {
  const std::stop_callback tell_stopping(stop, [&log] {
    log.note("stopping after this step, with a checkpoint; a second signal ends at once");
  });
  pipeline.on_step = [&](const StepSeen& seen) {
    note_first_step(seen, timeline.first);
    log.step(seen);
  };
  pipeline.on_counting = [&](const CountingSeen& seen) { log.counting(seen); };
  pipeline.on_evaluation = [&](const EvaluationSeen& seen) { log.evaluation(seen); };
  pipeline.writer = CheckpointWriterOptions{
      .write = [&](std::uint32_t step, const std::vector<Snapshot>& snapshots,
                   const std::vector<ShardInfo>& elsewhere) -> Status {
        const auto written =
            write_training_checkpoint(folder.checkpoints(), options, timeline, step, snapshots);
        if (!written) return written.error();
        return success();
      },
      .on_checkpoint = [&](const CheckpointSeen& seen) { log.checkpoint(seen); }};

  const Graph graph = build_pipeline(pipeline);
  RunOptions run_with = run_options(options, pipeline);
  run_with.stop = stop;
  run_with.on_failure = [&](const FailureReport& failure) { log.failure(failure); };
  const RunReport report = run(graph, run_with);
  return conclude(report, log, folder, options, shape_of(options, pipeline));
}

int train(const TrainArguments& arguments, const std::string& command_line) {
  std::signal(SIGPIPE, SIG_IGN);  // `troupe train | head` ends the picture, not the training
  std::stop_source stop;
  const StopSignal on_signal([&stop] { stop.request_stop(); });
  const Options options = load_options(arguments.options, arguments.overrides);
  Resumption resumption = find_resumption(arguments);
  StartingPoint& start = resumption.start;
  check_continues(options, start);
  PipelineOptions pipeline = pipeline_options(options, start);
  start.tensors.clear();  // the stages have their states now
  pipeline.evaluates_first = is_evaluation_due(resumption, timeline_of(pipeline));
  const Timeline timeline = timeline_of(pipeline);
  if (start.steps >= timeline.steps && !timeline.evaluates_first) {
    fmt::print("nothing left to train: {} has {} of {} steps\n", start.checkpoint.string(),
               start.steps, timeline.steps);
    return exit_done;
  }
  if (resumption.output) check_no_later_checkpoints(*resumption.output, start.steps);
  const auto folder = OutputFolder::create(resumption.output);
  folder.write_options(resolved_yaml(options));
  tell_heading(options, pipeline, folder, start, timeline);

  RunLog log(options, folder, timeline, learning_rate_options(pipeline));
  record_begin(log, command_line, start, timeline);
  for (const std::string& warning : warnings(options, start)) log.note("warning: " + warning);
  try {
    if (start.steps >= timeline.steps) return evaluate_only(options, start, log);
    return run_training(options, pipeline, folder, timeline, stop.get_token(), log);
  } catch (const Error& error) {
    log.record_failure(error);
    log.finish();
    throw;
  }
}

}  // namespace

void add_train_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb = app.add_subcommand("train", "Train as an options file says");
  verb->add_option("FILE", arguments->options, "options file; see `troupe options`")->required();
  verb->add_option("-r,--override", arguments->overrides, "KEY=VALUE in place of the file's")
      ->allow_extra_args(false);
  verb->add_option("-o,--output", arguments->output, "folder to write to (outputs/DATE/TIME)");
  verb->add_option("--restart", arguments->restart, "go on: auto, a checkpoint or output folder");
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const std::string& command_line) {
      return train(*arguments, command_line);
    };
  });
}

}  // namespace troupe
