// troupe train: trains from an options file.
#include <fmt/format.h>

#include <csignal>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "apps/options/load_options.h"
#include "apps/train/in_world.h"
#include "apps/train/lead_run.h"
#include "apps/verbs.h"
#include "runtime/print.h"
#include "runtime/program.h"
#include "runtime/stop_signal.h"

namespace troupe {
namespace {

int train(const TrainArguments& arguments, const Invocation& call) {
  std::signal(SIGPIPE, SIG_IGN);  // `troupe train | head` ends the output, not the training
  std::stop_source stop;
  const StopSignal on_signal([&stop] { stop.request_stop(); });
  const Environment environment = Environment::of_process();
  const auto world = world_from_environment(environment);
  TrainCommand command{
      .arguments = arguments, .call = call, .options = Options(), .stop = stop.get_token()};
  if (world && world->size > 1) return train_in_world(std::move(command), *world, environment);
  // Until the run begins there is nothing to save: a request to stop ends the process.
  std::optional<std::stop_callback<void (*)()>> exit_at_once;
  exit_at_once.emplace(command.stop, stop_before_the_run);
  command.on_begin = [&] { exit_at_once.reset(); };
  command.options = load_options(arguments.options, arguments.overrides, call.own);
  return lead_run(command, [](const auto& decide) { decide(); });
}

}  // namespace

void add_train_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* verb = app.add_subcommand("train", "Train from an options file");
  verb->add_option("FILE", arguments->options,
                   "options file (YAML); `troupe options` lists the keys")
      ->required();
  verb->add_option("-r,--override", arguments->overrides, "overrides the file (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_flag_callback(
      "-v,--verbose", [arguments] { arguments->overrides.push_back("log.level=debug"); },
      "show edges, steps, checkpoints and messages: -r log.level=debug");
  verb->add_option("-o,--output", arguments->output, "output folder (outputs/DATE/TIME)")
      ->type_name("FOLDER")
      ->take_last();
  verb->add_option("--restart", arguments->restart,
                   "resume from this checkpoint or output folder; auto: from the\n"
                   "newest run of the same model, data and seed (with -o: of that\n"
                   "folder), or start a new run if there is none")
      ->type_name("PATH|auto")
      ->take_last();  // the same command may have one already
  verb->footer(
      fmt::format("Example: {} train recipes/demo.yaml -r train.epochs=1 -o run", program_name()));
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation& call) { return train(*arguments, call); };
  });
}

}  // namespace troupe
