#include "apps/train/in_world.h"

#include <cstdlib>
#include <memory>
#include <optional>

#include "actors/checkpoint_files.h"
#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "apps/train/resumption.h"
#include "ops/cpu/processor.h"
#include "runtime/control/interface.h"
#include "runtime/print.h"
#include "runtime/program.h"

namespace troupe {
namespace {

bool is_same_folder(const std::filesystem::path& one, const std::filesystem::path& other) {
  return std::filesystem::absolute(one).lexically_normal() == other.lexically_normal();
}

/// The part of a process that does not lead: its actors, and its shards of checkpoints.
int follow(TrainCommand& command, const Agreement& agreed) {
  WorldRun& world = *command.world;
  if (agreed.nothing_to_do) {
    world.leave();
    return exit_done;
  }
  const auto& asked = command.arguments.output;
  if (asked && !agreed.output.empty() && !is_same_folder(*asked, agreed.output))
    print_error("troupe: warning: rank {} was given -o {}; output is in {}, as rank 0 was told\n",
                world.process(), asked->string(), agreed.output.string());
  const std::string processor = cpu::arithmetic_of_this_processor();
  if (processor != agreed.processor)
    print_error(
        "troupe: warning: rank {} computes on a processor of {}, rank 0 on one of {}: which of "
        "them has which stage decides the weights' last bits\n",
        world.process(), processor, agreed.processor);
  Options& options = command.options;
  options.parallel.partition = agreed.partition;
  StartingPoint start;
  if (!agreed.checkpoint.empty()) start = read_starting_point(agreed.checkpoint);
  start.weights = agreed.weights;
  PipelineOptions pipeline = pipeline_options(options, start, process_options(&world));
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
    throw with_way_to_go_on(error, agreed.output);
  }
}

/// Rank 0 decides what the others follow.
int take_part(TrainCommand& command, const World& world, bool& by_itself) {
  WorldRun& run = *command.world;
  const std::string resolved = resolved_yaml(command.options);
  if (run.leads())
    return lead_run(command, [&](const std::function<Agreement()>& decide) {
      run.agree(resolved, [&] {
        check_fits(world, command.options);
        return decide();
      });
    });
  const Agreement agreed = run.agree(resolved, {});
  by_itself = true;
  return follow(command, agreed);
}

/// Without an interface that this host lacks, the others can still be met, and told.
void check_interface(Options& options) {
  std::string& name = options.parallel.interface;
  try {
    if (!name.empty()) (void)address_of_interface(name);
  } catch (const Error&) {
    name.clear();
    throw;
  }
}

}  // namespace

int train_in_world(TrainCommand command, const World& world, const Environment& environment) {
  // Wrong options are wrong for all, who have to meet to find out who tells.
  std::optional<Error> wrong;
  try {
    command.options = load_options(command.arguments.options, command.arguments.overrides);
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
    if (error.code() == ErrorCode::peer_lost) return end_in_silence(error);
    throw;
  }
  command.world = run.get();
  // Until the run begins there is nothing to save, and much to wait for.
  std::optional<std::stop_callback<void (*)()>> leave_at_once;
  // Between the agreement and the run, what happens to a process other than rank 0 is its own.
  bool by_itself = false;
  command.on_begin = [&] {
    leave_at_once.reset();
    by_itself = false;
  };
  try {
    if (wrong) throw *wrong;
    leave_at_once.emplace(command.stop, [] { std::_Exit(exit_stopped); });
    return take_part(command, world, by_itself);
  } catch (const Error& error) {
    leave_at_once.reset();
    if (by_itself && error.code() != ErrorCode::peer_lost) return run->end_with_own(error);
    return run->end_with(error);
  }
}

}  // namespace troupe
