// troupe eval: evaluates the weights of a checkpoint or a safetensors file on the test set.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/eval/evaluate.h"
#include "apps/files/weights_file.h"
#include "apps/options/load_options.h"
#include "apps/options/option_changes.h"
#include "apps/output/report.h"
#include "apps/verbs.h"
#include "runtime/error.h"

namespace troupe {
namespace {

struct EvalArguments {
  std::filesystem::path checkpoint;
  std::filesystem::path options;
  std::vector<std::string> overrides;
};

Options options_for(const EvalArguments& arguments, const WeightsFile& weights) {
  if (!arguments.options.empty()) return load_options(arguments.options, arguments.overrides);
  if (weights.options.empty())
    throw Error(
        ErrorCode::usage,
        fmt::format("{} holds weights without options: the model and the normalisation are unknown",
                    weights.path.string()),
        "give an options file with --options FILE; for weights that a program trained with the "
        "library's defaults, add -r 'data.mean=[0]' -r 'data.std=[1]'");
  // The weights that the run started from do not matter, and may no longer exist.
  std::vector<std::string> overrides = {"model.weights="};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  return parse_options(weights.options, (weights.path / "manifest.json").string(), overrides);
}

int print_evaluation(const EvalArguments& arguments) {
  const WeightsFile weights = open_weights(find_weights(arguments.checkpoint));
  const Options options = options_for(arguments, weights);
  const EvaluationReport report = [&] {
    try {
      return evaluate(options, weights.tensors);
    } catch (const Error& error) {
      throw of_another_model(error, weights.path, weights.options, options);
    }
  }();
  fmt::print("{}\nnormalised with mean {}, std {}\ntest loss {:.9g}\n{}\n", weights.path.string(),
             fmt::join(options.pipeline.data.mean, ", "),
             fmt::join(options.pipeline.data.std, ", "), report.loss, accuracy_line(report));
  return exit_done;
}

}  // namespace

void add_eval_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* verb = app.add_subcommand("eval", "Evaluate a checkpoint on the test set");
  verb->add_option("CHECKPOINT", arguments->checkpoint,
                   "checkpoint, output folder or safetensors file")
      ->required();
  verb->add_option("--options", arguments->options, "options file (the checkpoint's options)");
  verb->add_option("-r,--override", arguments->overrides, "KEY=VALUE, overrides the options")
      ->allow_extra_args(false);
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const std::string&) { return print_evaluation(*arguments); };
  });
}

}  // namespace troupe
