#include "apps/train/in_world.h"

#include <memory>
#include <optional>

#include "actors/checkpoint_files.h"
#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "apps/train/resumption.h"
#include "ops/backend.h"
#include "runtime/control/interface.h"
#include "runtime/print.h"
#include "runtime/program.h"

namespace troupe {
namespace {

bool is_same_folder(const std::filesystem::path& one, const std::filesystem::path& other) {
  return std::filesystem::absolute(one).lexically_normal() == other.lexically_normal();
}

/// The run in a process other than rank 0: its actors, and its shards of checkpoints.
int follow(TrainCommand& command, const Agreement& agreed) {
  WorldRun& world = *command.world;
  if (agreed.nothing_to_do) {
    world.leave();
    return exit_done;
  }
  const auto& asked = command.arguments.output;
  if (asked && !agreed.output.empty() && !is_same_folder(*asked, agreed.output))
    print_warning("rank {} ignores -o {}; the output is in {}, the folder of rank 0",
                  world.process(), asked->string(), agreed.output.string());
  Options& options = command.options;
  options.pipeline.partition = agreed.partition;
  StartingPoint start;
  if (!agreed.checkpoint.empty()) start = read_starting_point(agreed.checkpoint);
  start.weights = agreed.weights;
  PipelineOptions pipeline = pipeline_options(options, start, process_options(&world));
  const std::string processor = backend(pipeline.stream.device).fingerprint();
  if (processor != agreed.processor)
    print_warning(
        "rank {} has another type of processor ({}, rank 0 {}): the last bits "
        "of the weights depend on the processor that computes a stage",
        world.process(), processor, agreed.processor);
  pipeline.evaluates_first = agreed.evaluates_first;
  const std::filesystem::path checkpoints = agreed.output / "checkpoints";
  if (has_steps_left(pipeline))
    pipeline.writer = CheckpointWriterOptions{
        .write_shards = [checkpoints](std::uint32_t step, const std::vector<Snapshot>& snapshots) {
          return write_snapshot_shards(checkpoints, step, snapshots);
        }};
  try {
    const RunReport report = run_graph(command, pipeline, {});
    world.leave();
    return report.stopped ? exit_stopped : exit_done;
  } catch (const Error& error) {
    throw with_resume_hint(error, agreed.output);
  }
}

int take_part(TrainCommand& command, const World& world) {
  WorldRun& run = *command.world;
  const std::string resolved = resolved_yaml(command.options);
  if (run.leads())
    return lead_run(command, [&](const std::function<Agreement()>& decide) {
      run.agree(resolved, [&] {
        check_fits(world, command.options);
        return decide();
      });
    });
  return follow(command, run.agree(resolved, {}));
}

/// Clears an interface that this host lacks, so that this process can still join and report it.
void check_interface(Options& options) {
  std::string& name = options.transport.interface;
  try {
    if (!name.empty()) (void)address_of_interface(name);
  } catch (const Error&) {
    name.clear();
    throw;
  }
}

}  // namespace

int train_in_world(TrainCommand command, const World& world, const Environment& environment) {
  // Wrong options are wrong in all processes, which join the world to find out which one reports.
  std::optional<Error> wrong;
  try {
    command.options =
        load_options(command.arguments.options, command.arguments.overrides, command.call.own);
    check_interface(command.options);
  } catch (const Error& error) {
    wrong = error;
  }
  std::unique_ptr<WorldRun> run;
  try {
    run = std::make_unique<WorldRun>(world, environment, command.options, command.stop);
  } catch (const Error& error) {
    if (command.stop.stop_requested() && error.code() == ErrorCode::refused) return exit_stopped;
    if (wrong) throw *wrong;
    if (error.code() == ErrorCode::peer_lost) return end_silently(error, command.call.own);
    throw;
  }
  if (wrong) return run->end_with(*wrong);
  command.world = run.get();
  // Until the run begins there is nothing to save, and a request to stop ends the process.
  std::optional<std::stop_callback<void (*)()>> exit_at_once;
  exit_at_once.emplace(command.stop, stop_before_the_run);
  command.on_begin = [&] { exit_at_once.reset(); };
  try {
    return take_part(command, world);
  } catch (const Error& error) {
    exit_at_once.reset();
    return run->end_with(error);
  }
}

}  // namespace troupe
