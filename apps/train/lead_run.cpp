#include "apps/train/lead_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "actors/weights_file.h"
#include "apps/files/best_checkpoint.h"
#include "apps/memory_shortage.h"
#include "apps/options/option_changes.h"
#include "apps/options/options_table.h"
#include "apps/output/folder.h"
#include "apps/output/process_usage.h"
#include "apps/output/run_summary.h"
#include "apps/output/trace.h"
#include "apps/train/edge_lines.h"
#include "apps/train/resumption.h"
#include "apps/train/run_log.h"
#include "apps/train/warnings.h"
#include "apps/version.h"
#include "ops/backend.h"
#include "ops/gpu_library.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/flow/faults.h"
#include "runtime/print.h"
#include "runtime/program.h"
#include "runtime/text.h"

namespace troupe {
namespace {

/// "ends early after 2 evaluations in a row without …", a line; empty if the run cannot.
std::string early_end(const PipelineOptions& pipeline, const std::string& monitor) {
  const EarlyStopping& stopping = pipeline.stopping;
  const Timeline timeline = timeline_of(pipeline);
  // Without a target, the first evaluation has none before it to improve on.
  const std::int64_t needed = stopping.target_accuracy > 0
                                  ? std::max<std::int64_t>(stopping.patience, 1)
                                  : std::int64_t{stopping.patience} + 1;
  if (!stopping.is_set() || needed * timeline.steps_per_epoch >= timeline.steps) return {};
  const std::string evaluations = stopping.patience > 1
                                      ? fmt::format("{} evaluations in a row", stopping.patience)
                                      : std::string("an evaluation");
  if (stopping.target_accuracy > 0)
    return fmt::format("ends early after {} with a test accuracy of {} or more\n", evaluations,
                       stopping.target_accuracy);
  return fmt::format(
      "ends early after {} without a better {}{}\n", evaluations, monitor,
      stopping.min_delta == 0 ? "" : fmt::format(" by more than {}", stopping.min_delta));
}

void print_heading(const Options& options, const PipelineOptions& pipeline,
                   const OutputFolder& folder, const StartingPoint& start,
                   const Timeline& timeline) {
  print_out("{}\n{}\n", data_heading(pipeline.data.dataset), run_heading(options, pipeline));
  print_out("{}output in {}\n", early_end(pipeline, option_text(options, "train.monitor")),
            folder.path().string());
  if (!start.checkpoint.empty())
    print_out("resuming from {} at step {} of {}\n", start.checkpoint.string(), start.steps,
              timeline.steps);
  if (!start.checkpoint.empty() && !options.weights.empty())
    print_out("model.weights {} is not read: the weights are those of the checkpoint\n",
              options.weights.string());
  if (!start.weights.empty())
    if (const WeightsFile weights = open_weights(start.weights); !weights.part.empty())
      print_out("weights of {}\n", weights.name());
  if (const std::string changes = changes_since(start.options, options); !changes.empty())
    print_out("changed since: {}\n", changes);
}

void print_nothing_left(const StartingPoint& start, const Timeline& timeline,
                        const std::string& stopped_early, const EarlyStopping& stopping) {
  if (!stopped_early.empty())
    return print_out("nothing left to train: {}: {} To continue, raise {}\n",
                     start.checkpoint.string(), stopped_early,
                     stopping.target_accuracy > 0 ? "train.target_accuracy" : "train.patience");
  print_out(
      "nothing left to train: {} is {} of a run of {}; to continue, raise train.epochs or "
      "train.steps\n",
      start.checkpoint.string(),
      start.steps > timeline.steps ? fmt::format("step {}, past the end", start.steps)
                                   : "the last step",
      counted(timeline.steps, "step"));
}

void record_begin(RunLog& log, const std::string& command_line, const StartingPoint& start,
                  const Timeline& timeline, const std::string& heading) {
  log.record(fmt::format("troupe {} begins: {}", TROUPE_VERSION, command_line));
  log.record(start.checkpoint.empty()
                 ? fmt::format("{} remaining", counted(timeline.steps, "step"))
                 : fmt::format("{} of {} steps remaining, from {}", timeline.steps - start.steps,
                               timeline.steps, start.checkpoint.string()));
  std::istringstream lines(fmt::format("{}\n{}\n{}", host_text(), components_text(), heading));
  for (std::string line; std::getline(lines, line);) log.record(line);
}

/// How many of the epochs before the checkpoint have no evaluation, and get none now.
std::int64_t missing_evaluations(const PipelineOptions& pipeline) {
  const Timeline timeline = timeline_of(pipeline);
  const auto ends_epoch = [&](std::uint32_t steps) {
    return steps % timeline.steps_per_epoch == 0;
  };
  const std::int64_t known =
      std::ranges::count_if(pipeline.stopping.before, ends_epoch, &Evaluation::step);
  const bool is_due = timeline.evaluates_first && ends_epoch(timeline.first);
  return std::max<std::int64_t>(0, timeline.epoch(timeline.first) - known - (is_due ? 1 : 0));
}

void warn(const Options& options, const StartingPoint& start, const PipelineOptions& pipeline,
          RunLog& log) {
  for (const std::string& warning : warnings(options, start, pipeline)) log.warn(warning);
  const bool compares = pipeline.stopping.is_set() || options.best_checkpoint_kept ||
                        pipeline.rate.schedule == LearningRateSchedule::plateau;
  const std::int64_t missing = missing_evaluations(pipeline);
  if (compares && missing > 0)
    log.warn(
        fmt::format("{} before step {} {} not in {}: train.patience, train.schedule plateau "
                    "and checkpoint.keep_best continue without {}",
                    counted(missing, "evaluation"), start.steps, missing == 1 ? "is" : "are",
                    (output_of(start) / "train.csv").string(), missing == 1 ? "it" : "them"));
}

bool is_verbose(const Options& options) { return options.log_level == LogLevel::debug; }

RunShape shape_of(const Options& options, const PipelineOptions& pipeline) {
  const int threads = actor_threads(options, pipeline.processes);
  // The last replica has the most of them.
  const MicroBatchRange range =
      micro_batch_range(pipeline.micro_batches, pipeline.replicas - 1, pipeline.replicas);
  return {.micro_batches = range.last - range.first,
          .batch_size = options.pipeline.batch_size / options.pipeline.replicas,
          .replicas = options.pipeline.replicas,
          .processes = static_cast<int>(pipeline.processes),
          .on_gpu = pipeline.stream.device != Device::cpu(),
          .actor_threads = threads,
          .idle_cores = available_cores() - threads * pipeline.stream.threads,
          .unused_cores = idle_cores(options, pipeline.processes),
          .workers = options.pipeline.data.workers,
          .batch_norms = has_batch_norms(pipeline),
          .schedule = pipeline.schedule,
          .partition = pipeline.partition,
          .partition_by_hand = !options.pipeline.partition.empty()};
}

/// The evaluation with the checkpoint that checkpoint.keep_best keeps.
std::optional<Evaluation> best_checkpoint(const Options& options, const OutputFolder& folder,
                                          RunLog& log) {
  if (!options.best_checkpoint_kept) return {};
  return best_with_checkpoint(folder.checkpoints(), options.pipeline.stopping.monitor,
                              log.evaluations());
}

/// Whether the checkpoint is one of this output folder, not of the run that another one continues.
bool lies_in_output(const StartingPoint& start, const std::filesystem::path& output) {
  std::error_code ignored;
  return std::filesystem::equivalent(output_of(start), output, ignored);
}

/// Removes folders that a process left which was killed while it wrote or removed a checkpoint. No
/// process of this run may write yet.
void remove_leftovers(const OutputFolder& folder) {
  if (!std::filesystem::exists(folder.checkpoints())) return;
  constexpr std::int64_t any_step = std::numeric_limits<std::int64_t>::max();
  const Retention all{.newest = 0, .also = {}};
  if (const Status pruned = prune_checkpoints(folder.checkpoints(), all, any_step); !pruned)
    print_warning("{}", pruned.error().message());
}

/// Prints the checkpoint that checkpoint.keep_best keeps. Returns a warning if the best evaluation
/// has none.
std::string print_best(const Options& options, const std::filesystem::path& checkpoints,
                       const std::vector<Evaluation>& evaluations) {
  if (!options.best_checkpoint_kept || evaluations.empty()) return {};
  const MonitoredScore monitor = options.pipeline.stopping.monitor;
  const auto kept = best_with_checkpoint(checkpoints, monitor, evaluations);
  if (kept)
    print_out("best checkpoint in {}: {}\n", (checkpoints / checkpoint_name(kept->step)).string(),
              scores_text(*kept));
  const Evaluation& best = evaluations[best_of(monitor, 0, evaluations)];
  if (kept && kept->step == best.step) return {};
  return fmt::format(
      "the best evaluation, after step {} with {}, has no checkpoint; "
      "checkpoint.every_epochs=1 and checkpoint.keep_best=true from the first step on keep it, if "
      "it can be written",
      best.step, scores_text(best, " and "));
}

void print_best(const Options& options, const OutputFolder& folder, RunLog& log) {
  const std::string warning = print_best(options, folder.checkpoints(), log.evaluations());
  if (!warning.empty()) log.warn(warning);
}

/// The last evaluation comes after the last checkpoint, which kept what was the best until then.
void remove_former_best(const Options& options, const OutputFolder& folder, RunLog& log,
                        std::int64_t step) {
  const auto best = best_checkpoint(options, folder, log);
  if (!best) return;
  const Retention keep{.newest = options.checkpoints_kept, .also = best->step};
  if (const Status pruned = prune_checkpoints(folder.checkpoints(), keep, step); !pruned)
    log.warn(pruned.error().message());
}

/// Of the GPU that computes; null if it is the CPU.
std::shared_ptr<GpuMeter> meter_of(Device device) {
  if (device == Device::cpu()) return nullptr;
  const auto library = gpu_library();
  const auto gpus = library ? library.value()->survey().gpus : std::vector<GpuSurvey::Gpu>();
  return std::make_shared<GpuMeter>(
      [id = gpus.empty() ? "" : gpus.front().pci_bus_id] { return open_nvml(id); });
}

void print_usage(const RunReport& report, RunLog& log, const RunShape& shape,
                 const ProcessUsage& before) {
  const ProcessUsage after = process_usage();
  std::vector<std::string> lines{usage_line(before, after, report.wall, available_cores(),
                                            shape.processes > 1 ? "rank 0" : "")};
  const auto processor_time = after.processor_time - before.processor_time;
  if (!shape.on_gpu)
    lines.push_back(shared_cores_sentence(report, 0, processor_time, available_cores()));
  if (log.gpu()) lines.push_back(log.gpu()->summary_line());
  for (const std::string& line : lines) {
    if (line.empty()) continue;
    log.record(line);
    print_out("{}\n", line);
  }
  print_out("\n");
}

/// `asked_here`: this process, not another, was asked to stop.
int conclude(const RunReport& report, RunLog& log, const OutputFolder& folder,
             const Options& options, const RunShape& shape, const ProcessUsage& before,
             bool asked_here) {
  log.finish(report.stopped);
  if (options.run.trace) {
    if (const Status written = write_trace(folder.trace(), report); !written) throw written.error();
  }
  print_out("\n{}\n", time_split_table(report));
  if (const std::string judged = run_summary(report, shape); !judged.empty())
    print_out("{}\n", judged);
  print_usage(report, log, shape, before);
  if (log.checkpoint_error()) throw *log.checkpoint_error();
  const double seconds = std::chrono::duration<double>(report.wall).count();
  if (report.stopped) {
    const char* of_whom = asked_here ? "" : ", because another process received the request";
    log.record(fmt::format("ended: stopped on request after step {}{}, {:.1f} s", report.steps,
                           of_whom, seconds));
    print_best(options, folder, log);
    print_out("stopped after step {}{}; resume with the same command and --restart {}\n",
              report.steps, of_whom, folder.path().string());
    return exit_stopped;
  }
  const std::string complete = completion_lines(log.totals(), log.last_evaluation());
  std::istringstream lines(complete);
  for (std::string line; std::getline(lines, line);) log.record(line);
  log.record(fmt::format("ended: done, {}, {:.1f} s", counted(report.steps, "step"), seconds));
  print_out("{}\n", complete);
  print_out("checkpoint in {}\n", (folder.checkpoints() / checkpoint_name(report.steps)).string());
  remove_former_best(options, folder, log, report.steps);
  print_best(options, folder, log);
  if (const auto evaluation = log.last_evaluation())
    print_out("{}{}\n", options.best_checkpoint_kept ? "last checkpoint: " : "",
              result_line(*evaluation));
  return exit_done;
}

/// All steps are done; only the last evaluation was not finished.
int evaluate_only(TrainCommand command, PipelineOptions& pipeline, const OutputFolder& folder,
                  RunLog& log) {
  command.on_begin = [] {};  // there is nothing to save: a signal still ends the process
  pipeline.on_evaluation_progress = [&](const EvaluationProgress& seen) {
    log.evaluation_progress(seen);
  };
  pipeline.on_evaluation = [&](const Evaluation& seen) { log.evaluation(seen); };
  run_graph(command, pipeline, [&](const FailureReport& failure) { log.failure(failure); });
  if (command.world) command.world->leave();
  log.finish();
  log.record("ended: done, only the evaluation remained");
  print_out("{}\n", completion_lines(log.totals(), log.last_evaluation()));
  remove_former_best(command.options, folder, log, pipeline.first_step);
  print_best(command.options, folder, log);
  if (const auto counted = log.last_evaluation()) print_out("{}\n", result_line(*counted));
  return exit_done;
}

/// Checks, before anything is written, that the graph can be built, that it has the actors of
/// `faults`, and that the run has their steps.
void check_graph(const Options& options, PipelineOptions pipeline) {
  pipeline.writer = CheckpointWriterOptions{};
  const Graph graph = build_pipeline(pipeline);
  if (options.run.faults.empty()) return;
  const RunOptions run = run_options(options, pipeline);
  check_faults(run.faults, graph);
  for (const FaultOptions& fault : run.faults)
    if (fault.step >= run.steps.count)
      throw Error(ErrorCode::bad_options,
                  fmt::format("faults names step {} of {}, but the run has {} steps, from 0",
                              fault.step, fault.actor, run.steps.count),
                  "name one of them");
}

int run_training(const TrainCommand& command, PipelineOptions& pipeline, const OutputFolder& folder,
                 const Timeline& timeline, RunLog& log) {
  const Options& options = command.options;
  const std::stop_callback on_stopping(command.stop, [&log] {
    log.info(
        "stopping after this step, with a checkpoint; a second signal ends the process at once");
  });
  const bool verbose = is_verbose(options);
  pipeline.on_step = [&, verbose](const StepSeen& seen) {
    log.step(seen);
    if (verbose)
      log.debug(fmt::format("step {} {}: loss {}, {} in {:.1f} ms", seen.step,
                            seen.skipped ? "skipped" : "committed", loss_number(seen.loss),
                            counted(seen.samples, "sample"),
                            std::chrono::duration<double, std::milli>(seen.duration).count()));
  };
  pipeline.on_evaluation_progress = [&](const EvaluationProgress& seen) {
    log.evaluation_progress(seen);
  };
  pipeline.on_evaluation = [&, verbose](const Evaluation& seen) {
    if (verbose)
      log.debug(fmt::format("evaluated after step {}: {}", seen.step, scores_text(seen)));
    log.evaluation(seen);
  };
  pipeline.writer = CheckpointWriterOptions{
      .folder = folder.checkpoints(),
      .write = [&](std::uint32_t step, const std::vector<Snapshot>& snapshots,
                   const std::vector<ShardInfo>& elsewhere) -> Status {
        log.await_rows(step);  // and the evaluations before it
        const auto best = best_checkpoint(options, folder, log);
        const auto written = write_training_checkpoint(
            folder.checkpoints(), options, timeline, step, snapshots, elsewhere, pipeline,
            best ? std::optional<std::int64_t>(best->step) : std::nullopt);
        if (!written) return written.error();
        return success();
      },
      .on_checkpoint =
          [&, verbose](const CheckpointSeen& seen) {
            log.checkpoint(seen);
            if (verbose && seen.status)
              log.debug(fmt::format("checkpoint of step {} is complete", seen.step));
          }};

  const ProcessUsage before = process_usage();
  const auto on_failure = [&](const FailureReport& failure) {
    log.failure(failure);
    if (failure.replaced.size() == 1) return;  // the reducers still have their sums
    const std::uint32_t steps = failure.steps - pipeline.first_step;
    if (std::string lost = lost_gradients_warning(pipeline, steps); !lost.empty())
      log.warn(std::move(lost));
  };
  const RunReport report = run_graph(command, pipeline, on_failure, &log);
  if (command.world) command.world->leave();
  return conclude(report, log, folder, options, shape_of(options, pipeline), before,
                  command.stop.stop_requested());
}

}  // namespace

RunReport run_graph(const TrainCommand& command, PipelineOptions& pipeline,
                    const std::function<void(const FailureReport&)>& on_failure, RunLog* log) {
  const Graph graph = build_pipeline(pipeline);
  pipeline.initial.clear();
  RunOptions run_with = run_options(command.options, pipeline);
  run_with.stop = command.stop;
  run_with.on_failure = on_failure;
  if (command.world) command.world->connect(graph, run_with);
  command.on_begin();
  if (!log || !is_verbose(command.options)) return run(graph, run_with);
  Member* member = command.world ? &command.world->member() : nullptr;
  for (std::string& line : edge_lines(graph, member, command.options.transport))
    log->debug(std::move(line));
  RunReport report = run(graph, run_with);
  for (std::string& line : message_lines(graph, report)) log->debug(std::move(line));
  return report;
}

void stop_before_the_run() {
  print_error("stopped before the run began\n");
  std::_Exit(exit_stopped);
}

bool has_steps_left(const PipelineOptions& pipeline) {
  return pipeline.first_step < timeline_of(pipeline).steps;
}

ProcessOptions process_options(const WorldRun* world) {
  if (!world) return {};
  return {world->process(), world->processes()};
}

/// `folder`: none if nothing is left to do.
Agreement agreement_of(const PipelineOptions& pipeline, const std::optional<OutputFolder>& folder,
                       const StartingPoint& start) {
  return {.partition = pipeline.partition,
          .output = folder ? std::filesystem::absolute(folder->path()) : "",
          .checkpoint = start.checkpoint.empty() ? "" : std::filesystem::absolute(start.checkpoint),
          .weights = start.weights,
          .evaluates_first = timeline_of(pipeline).evaluates_first,
          .nothing_to_do = !folder,
          .processor = backend(pipeline.stream.device).fingerprint()};
}

/// Removes what a killed run has left in its own folder, and prints its best checkpoint.
void tidy_output(const Options& options, const Resumption& resumption,
                 const EarlyStopping& stopping) {
  const StartingPoint& start = resumption.start;
  if (!resumption.output || !lies_in_output(start, *resumption.output)) return;
  try {
    remove_leftovers(OutputFolder::create(resumption.output));  // locked
  } catch (const Error&) {  // another process trains into it, or it cannot be written
  }
  const std::string warning =
      print_best(options, *resumption.output / "checkpoints", stopping.before);
  if (!warning.empty()) print_warning("{}", warning);
}

/// The folder of the run, new or resumed, without what a killed process has left there. Throws if
/// it has checkpoints later than the one resumed.
OutputFolder folder_for(const Resumption& resumption) {
  if (resumption.output) check_no_later_checkpoints(*resumption.output, resumption.start.steps);
  OutputFolder folder = OutputFolder::create(resumption.output);
  remove_leftovers(folder);
  return folder;
}

int lead_run(const TrainCommand& command,
             const std::function<void(const std::function<Agreement()>& decide)>& agree) {
  const Options& options = command.options;
  Resumption resumption;
  std::optional<PipelineOptions> pipeline;
  std::optional<OutputFolder> folder;
  Timeline timeline;
  bool nothing_left = false;
  std::string stopped_early;  // an earlier part of the run
  agree([&]() -> Agreement {
    resumption = find_resumption(command.arguments.restart, command.arguments.output, options);
    StartingPoint& start = resumption.start;
    // The newest checkpoint of a folder may be another one when the other processes look.
    if (start.checkpoint.empty() && !options.weights.empty())
      start.weights = std::filesystem::absolute(initial_weights(options));
    check_continues(options, start);
    pipeline = pipeline_options(options, start, process_options(command.world));
    pipeline->evaluates_first = is_evaluation_due(start, timeline_of(*pipeline));
    timeline = timeline_of(*pipeline);
    pipeline->stopping.before = earlier_evaluations(start);
    check_graph(options, *pipeline);
    check_model_file(pipeline->model);
    stopped_early = reason_to_stop(pipeline->stopping, pipeline->stopping.before);
    // An evaluation that is due decides again.
    nothing_left =
        !has_steps_left(*pipeline) || (!stopped_early.empty() && !timeline.evaluates_first);
    if (!nothing_left || timeline.evaluates_first) folder = folder_for(resumption);
    if (!resumption.note.empty()) print_out("{}\n", resumption.note);
    return agreement_of(*pipeline, folder, start);
  });
  const StartingPoint& start = resumption.start;
  if (!folder) {
    print_nothing_left(start, timeline, stopped_early, pipeline->stopping);
    tidy_output(options, resumption, pipeline->stopping);
    return exit_done;
  }
  folder->write_options(options_for_restart(options, pipeline->partition));
  take_over_rows(start, folder->csv());
  print_heading(options, *pipeline, *folder, start, timeline);
  const std::string processes = command.world ? command.world->heading() : "";
  if (command.world) print_out("{}\n", processes);

  RunLog log(*folder, timeline, learning_rate_options(*pipeline), options.log_every_steps,
             options.own, pipeline->stopping, throughput_unit(pipeline->data.dataset.samples()),
             loss_scale_options(*pipeline).has_value(), meter_of(pipeline->stream.device));
  record_begin(
      log, command.call.command_line, start, timeline,
      fmt::format("{}\n{}", data_heading(pipeline->data.dataset), run_heading(options, *pipeline)));
  if (command.world) log.record(processes);
  warn(options, start, *pipeline, log);
  try {
    if (nothing_left) return evaluate_only(command, *pipeline, *folder, log);
    return run_training(command, *pipeline, *folder, timeline, log);
  } catch (const Error& failure) {
    log.finish();
    log.record_failure(failure);
    print_best(options, *folder, log);
    throw with_resume_hint(with_memory_bound(failure, *pipeline, command.arguments.options),
                           folder->path(), log.steps());
  }
}

}  // namespace troupe
