// troupe eval: evaluates the weights of a checkpoint or a file on the test set.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/evaluate.h"
#include "actors/weights_file.h"
#include "apps/command.h"
#include "apps/error_wording.h"
#include "apps/files/best_checkpoint.h"
#include "apps/options/load_options.h"
#include "apps/options/option_changes.h"
#include "apps/options/options_table.h"
#include "apps/output/report.h"
#include "apps/train/training.h"
#include "apps/train/warnings.h"
#include "apps/verbs.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "runtime/text.h"

namespace troupe {
namespace {

struct EvalArguments {
  std::filesystem::path checkpoint;
  bool best = false;
  std::filesystem::path options;
  std::vector<std::string> overrides;
};

/// The options of the run with these overrides. model.name may differ from the run's if both models
/// have the same tensors. If the options fit the run's name alone, the other name is the reason.
Options recorded_options(const WeightsFile& weights, const std::vector<std::string>& overrides,
                         const Definitions& own) {
  const std::string source = (weights.path / "manifest.json").string();
  try {
    return parse_recorded_options(weights.options, source, overrides, own);
  } catch (const Error& error) {
    constexpr std::string_view key = "model.name=";
    const auto named = std::ranges::find_if(
        overrides, [&](const std::string& text) { return text.starts_with(key); });
    const bool names_none = error.remedy().find("-r ") == std::string::npos;
    if (named == overrides.end() && error.message().starts_with(source) && names_none)
      throw Error(error.code(), error.message(),
                  fmt::format("{}{}with -r KEY=VALUE", error.remedy(),
                              error.remedy().empty() ? "change it " : ", here "));
    if (named == overrides.end()) throw;
    std::vector<std::string> others = overrides;
    std::erase(others, *named);
    parse_recorded_options(weights.options, source, others, own);  // throws what else is wrong
    throw Error(error.code(),
                fmt::format("{}: the weights are those of model.name {}: {}", weights.path.string(),
                            recorded_option(weights.options, "model", "name"), error.message()),
                fmt::format("leave out -r {}", *named));
  }
}

Options options_for(const EvalArguments& arguments, const WeightsFile& weights,
                    const Definitions& own) {
  if (!arguments.options.empty()) return load_options(arguments.options, arguments.overrides, own);
  if (weights.options.empty())
    throw Error(
        ErrorCode::usage,
        fmt::format("{} holds weights without options: the model and the normalisation are unknown",
                    weights.path.string()),
        "give the options of the run with --options RUN/options_restart.yaml");
  // The weights that the run started from do not matter, and may no longer exist. Nor do the
  // batches of its training samples, which `overrides` may make fewer.
  // Each test sample is used once, so that none stays on a GPU.
  std::vector<std::string> overrides = {"model.weights=", "data.drop_last=false",
                                        "data.resident=false"};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  Options options = recorded_options(weights, overrides, own);
  // A run on a GPU can be evaluated on a host without one, unless the command line or the precision
  // demands one.
  const bool is_asked = std::ranges::any_of(
      arguments.overrides, [](const std::string& text) { return text.starts_with("device="); });
  if (!is_asked && options.device == DeviceChoice::cuda) options.device = DeviceChoice::automatic;
  return options;
}

Evaluation evaluate(const Options& options, const PipelineOptions& pipeline,
                    const WeightsFile& weights) {
  try {
    return evaluate(pipeline, weights.tensors);
  } catch (const Error& error) {
    throw of_another_model(error, weights.path, weights.options, options);
  }
}

/// A sentence if the data set has another number of samples than in the run that wrote the weights,
/// so that others are held out.
std::string changed_samples(const Options& options, const Options& before,
                            const WeightsFile& weights) {
  const DatasetOptions &limits = options.selection, &former = before.selection;
  const SampleCounts there = sample_counts(weights.run);
  if (!options.samples || there.train == 0) return {};
  const SampleCounts here = sample_counts(options.samples.value());
  // Each limit bounds one of the numbers, and may hide that there are others.
  const bool train_differs = limits.limit == former.limit && here.train != there.train;
  const bool test_differs = limits.test_limit == former.test_limit && here.test != there.test;
  if (!train_differs && !test_differs) return {};
  return fmt::format(
      "{} has {} training and {} test samples, but the run had {} and {}: others are held out, and "
      "the test samples contain training samples",
      options.dataset.name, here.train, here.test, there.train, there.test);
}

/// A sentence if the test samples contain samples that the weights were trained on: where more of
/// the same data, or others of it, are held out than in the run that wrote them.
std::string trained_on(const Options& options, const WeightsFile& weights) {
  std::optional<Options> before;
  try {
    if (!weights.options.empty()) before = parse_past_options(weights.options, "", options);
  } catch (const Error&) {  // of another version, or of other definitions
  }
  const auto is_same = [&](std::string_view key) {
    return option_text(*before, key) == option_text(options, key);
  };
  if (!before || !is_same("data.name") || !is_same("data.path")) return {};
  const std::string key = is_same("seed") ? "data.test_fraction" : "seed";
  const std::string now = option_text(options, key), then = option_text(*before, key);
  const double share = std::stod(option_text(options, "data.test_fraction"));
  const double former = std::stod(option_text(*before, "data.test_fraction"));
  if (share == 0) return {};
  if (key != "seed" && share == former) return changed_samples(options, *before, weights);
  if (key != "seed" && share < former) return {};
  return fmt::format(
      "{} is {}, but the run was trained with {}: the test samples contain training samples", key,
      now, then);
}

int print_evaluation(const EvalArguments& arguments, const Definitions& own) {
  const WeightsFile weights = open_weights(arguments.best ? find_best_weights(arguments.checkpoint)
                                                          : find_weights(arguments.checkpoint));
  const Options options = options_for(arguments, weights, own);
  PipelineOptions pipeline = options.pipeline;
  pipeline.model = options.model.chosen();
  set_device(options, pipeline.stream, 1);
  pipeline.stream.threads = intra_op_threads(options, 1);
  pipeline.data.dataset = open_dataset(options);
  if (const std::string sentence = trained_on(options, weights); !sentence.empty())
    print_warning("{}", sentence);
  if (const std::string sentence = no_gpu_warning(options); !sentence.empty())
    print_warning("{}", in_words_of_the_command(sentence, own));
  const Evaluation result = evaluate(options, pipeline, weights);
  if (!std::isfinite(result.loss)) print_warning("the test loss is not finite");
  print_out("{}{}\n", weights.name(), device_heading(pipeline.stream.device));
  if (pipeline.data.dataset.samples().dtype == DType::u8)
    print_out("normalised with mean {}, std {}\n", fmt::join(pipeline.data.mean, ", "),
              fmt::join(pipeline.data.std, ", "));
  print_out("test loss {:.9g}{}\n", std::isnan(result.loss) ? std::abs(result.loss) : result.loss,
            result.correct ? "" : fmt::format(" ({})", counted(result.count, "sample")));
  if (result.correct) print_out("{}\n", result_line(result));
  return exit_done;
}

}  // namespace

void add_eval_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* verb = app.add_subcommand("eval", "Evaluate a checkpoint on the test set");
  verb->add_option("CHECKPOINT", arguments->checkpoint,
                   "checkpoint, output folder, PyTorch or safetensors file")
      ->required();
  verb->add_flag("--best", arguments->best,
                 "of an output folder, take the checkpoint with the best\n"
                 "evaluation by train.monitor, not the newest one");
  verb->add_option("--options", arguments->options, "options file (the checkpoint's options)")
      ->type_name("FILE");
  verb->add_option("-r,--override", arguments->overrides, "overrides the options (repeatable)")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->callback([arguments, &chosen] {
    chosen = [arguments](const Invocation& call) { return print_evaluation(*arguments, call.own); };
  });
}

}  // namespace troupe
