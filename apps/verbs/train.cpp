// troupe train: trains as an options file says.
#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "actors/checkpoint_files.h"
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
#include "apps/world_run.h"
#include "runtime/error.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/print.h"

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
    print_out("no checkpoint to go on from in {}: beginning at step 0{}\n",
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
  print_out("{}\n", run_heading(options, pipeline));
  print_out("output in {}\n", folder.path().string());
  if (!start.checkpoint.empty())
    print_out("going on from {} at step {} of {}\n", start.checkpoint.string(), start.steps,
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
  if (seen.step != first + 1 || !std::getenv("TROUPE_EXIT_AFTER_FIRST_STEP")) return;
  print_error("first step made\n");
  std::_Exit(exit_done);
}

RunShape shape_of(const Options& options, const PipelineOptions& pipeline) {
  const int threads = actor_threads(options, pipeline.processes);
  return {.micro_batches = options.train.micro_batches / options.parallel.data,
          .batch_size = options.train.batch_size / options.parallel.data,
          .replicas = options.parallel.data,
          .processes = static_cast<int>(pipeline.processes),
          .actor_threads = threads,
          .idle_cores = available_cores() - threads * options.parallel.intra_op_threads,
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
  print_out("\n{}\n", time_split_table(report));
  if (const std::string judged = verdict(report, shape); !judged.empty())
    print_out("{}\n\n", judged);
  if (log.checkpoint_error()) throw *log.checkpoint_error();
  const double seconds = std::chrono::duration<double>(report.wall).count();
  if (report.stopped) {
    log.record(
        fmt::format("ended: stopped on request after step {}, {:.1f} s", report.steps, seconds));
    print_out("stopped after step {}; go on with the same command and --restart {}\n",
               report.steps, folder.path().string());
    return exit_stopped;
  }
  log.record(fmt::format("ended: done, {} steps, {:.1f} s", report.steps, seconds));
  print_out("checkpoint in {}\n", (folder.checkpoints() / checkpoint_name(report.steps)).string());
  if (const auto evaluation = log.last_evaluation()) print_out("{}\n", accuracy_line(*evaluation));
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
  print_out("{}\n", accuracy_line(counted));
  return exit_done;
}

/// A training run from the command line to its last line, in the process that leads.
struct TrainCommand {
  const TrainArguments& arguments;
  const std::string& command_line;
  Options options;
  std::stop_token stop;
  WorldRun* world = nullptr;               ///< null: this process is all there is
  std::function<void()> on_begin = [] {};  ///< when all processes are connected
};

/// Joins the other processes, if there are any, and trains.
RunReport run_graph(const TrainCommand& command, const PipelineOptions& pipeline,
                    const std::function<void()>& on_begin,
                    const std::function<void(const FailureReport&)>& on_failure) {
  const Graph graph = build_pipeline(pipeline);
  RunOptions run_with = run_options(command.options, pipeline);
  run_with.stop = command.stop;
  run_with.on_failure = on_failure;
  if (command.world) command.world->connect(graph, run_with);
  on_begin();
  return run(graph, run_with);
}

int run_training(const TrainCommand& command, PipelineOptions& pipeline, const OutputFolder& folder,
                 const Timeline& timeline, RunLog& log) {
  const Options& options = command.options;
  const std::stop_callback tell_stopping(command.stop, [&log] {
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
        const auto written = write_training_checkpoint(folder.checkpoints(), options, timeline,
                                                       step, snapshots, elsewhere);
        if (!written) return written.error();
        return success();
      },
      .on_checkpoint = [&](const CheckpointSeen& seen) { log.checkpoint(seen); }};

  const RunReport report = run_graph(command, pipeline, command.on_begin,
                                     [&](const FailureReport& failure) { log.failure(failure); });
  if (command.world) command.world->leave();
  return conclude(report, log, folder, options, shape_of(options, pipeline));
}

ProcessOptions process_of(const WorldRun* world) {
  if (!world) return {};
  return {world->process(), world->processes()};
}

/// All but the training itself; `begin` hears what the other processes must know.
int lead(const TrainCommand& command,
         const std::function<void(const std::function<Agreement()>&)>& begin) {
  const Options& options = command.options;
  Resumption resumption;
  std::optional<PipelineOptions> pipeline;
  std::optional<OutputFolder> folder;
  Timeline timeline;
  bool nothing_left = false;
  begin([&]() -> Agreement {
    resumption = find_resumption(command.arguments);
    const StartingPoint& start = resumption.start;
    check_continues(options, start);
    pipeline = pipeline_options(options, start, process_of(command.world));
    pipeline->evaluates_first = is_evaluation_due(resumption, timeline_of(*pipeline));
    timeline = timeline_of(*pipeline);
    nothing_left = start.steps >= timeline.steps;
    if (!nothing_left || timeline.evaluates_first) {
      if (resumption.output) check_no_later_checkpoints(*resumption.output, start.steps);
      folder = OutputFolder::create(resumption.output);
    }
    return {
        .cut = {pipeline->cut.begin(), pipeline->cut.end()},
        .output = folder ? std::filesystem::absolute(folder->path()) : "",
        .checkpoint = start.checkpoint.empty() ? "" : std::filesystem::absolute(start.checkpoint),
        .evaluates_first = timeline.evaluates_first,
        .nothing_to_do = nothing_left};
  });
  const StartingPoint& start = resumption.start;
  if (!folder) {
    print_out("nothing left to train: {} has {} of {} steps\n", start.checkpoint.string(),
               start.steps, timeline.steps);
    return exit_done;
  }
  folder->write_options(resolved_yaml(options));
  tell_heading(options, *pipeline, *folder, start, timeline);
  if (command.world) print_out("{}\n", command.world->heading());

  RunLog log(options, *folder, timeline, learning_rate_options(*pipeline));
  record_begin(log, command.command_line, start, timeline);
  for (const std::string& warning : warnings(options, start, pipeline->processes))
    log.note("warning: " + warning);
  try {
    if (nothing_left) return evaluate_only(options, start, log);
    return run_training(command, *pipeline, *folder, timeline, log);
  } catch (const Error& error) {
    log.record_failure(error);
    log.finish();
    throw;
  }
}

/// The part of a process that does not lead: its actors, and its shards of checkpoints.
int follow(TrainCommand& command, const Agreement& agreed) {
  WorldRun& world = *command.world;
  if (agreed.nothing_to_do) {
    world.leave();
    return exit_done;
  }
  Options& options = command.options;
  options.parallel.cut = agreed.cut;
  const StartingPoint start =
      agreed.checkpoint.empty() ? StartingPoint{} : read_starting_point(agreed.checkpoint);
  PipelineOptions pipeline = pipeline_options(options, start, process_of(&world));
  pipeline.evaluates_first = agreed.evaluates_first;
  const std::filesystem::path checkpoints = agreed.output / "checkpoints";
  pipeline.writer = CheckpointWriterOptions{
      .write_shards = [checkpoints](std::uint32_t step, const std::vector<Snapshot>& snapshots) {
        return write_snapshot_shards(checkpoints, step, snapshots);
      }};
  const RunReport report = run_graph(command, pipeline, command.on_begin, {});
  world.leave();
  return report.stopped ? exit_stopped : exit_done;
}

/// Rank 0 decides what the others follow, and ends with what any of them meets in the run. Between
/// the two each is by itself.
int take_part(TrainCommand& command, const World& world) {
  WorldRun& run = *command.world;
  const std::string resolved = resolved_yaml(command.options);
  if (run.leads())
    return lead(command, [&](const std::function<Agreement()>& decide) {
      run.agree(resolved, [&] {
        check_fits(world, command.options);
        return decide();
      });
    });
  const Agreement agreed = run.agree(resolved, {});
  bool by_itself = true;
  command.on_begin = [&, begin = command.on_begin] {
    by_itself = false;
    begin();
  };
  try {
    return follow(command, agreed);
  } catch (const Error& error) {
    if (by_itself && error.code() != ErrorCode::peer_lost) return run.end_with_own(error);
    throw;
  }
}

int train_in_world(TrainCommand command, const TrainArguments& arguments, const World& world,
                   const Environment& environment) {
  // Until the run begins there is nothing to save, and much to wait for.
  std::optional<std::stop_callback<void (*)()>> leave_at_once;
  leave_at_once.emplace(command.stop, [] { std::_Exit(exit_stopped); });
  command.on_begin = [&] { leave_at_once.reset(); };
  // Wrong options are wrong for all, who have to meet to find out who tells.
  std::optional<Error> wrong;
  try {
    command.options = load_options(arguments.options, arguments.overrides);
  } catch (const Error& error) {
    wrong = error;
  }
  std::unique_ptr<WorldRun> run;
  try {
    run = std::make_unique<WorldRun>(world, environment, command.options);
  } catch (const Error& error) {
    leave_at_once.reset();
    if (wrong) throw *wrong;
    if (error.code() == ErrorCode::peer_lost) return end_in_silence(error);
    throw;
  }
  command.world = run.get();
  try {
    if (wrong) throw *wrong;
    return take_part(command, world);
  } catch (const Error& error) {
    leave_at_once.reset();
    return run->end_with(error);
  }
}

int train(const TrainArguments& arguments, const std::string& command_line) {
  std::signal(SIGPIPE, SIG_IGN);  // `troupe train | head` ends the picture, not the training
  std::stop_source stop;
  const StopSignal on_signal([&stop] { stop.request_stop(); });
  const Environment environment = Environment::of_process();
  const auto world = world_from_environment(environment);
  TrainCommand command{.arguments = arguments,
                       .command_line = command_line,
                       .options = {},
                       .stop = stop.get_token()};
  if (world && world->size > 1)
    return train_in_world(std::move(command), arguments, *world, environment);
  command.options = load_options(arguments.options, arguments.overrides);
  return lead(command, [](const auto& decide) { decide(); });
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
