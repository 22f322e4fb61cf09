// troupe eval: counts the test set with the weights of a checkpoint or a safetensors file.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "actors/data/batch_maker.h"
#include "apps/command.h"
#include "apps/load_options.h"
#include "apps/report.h"
#include "apps/run_options.h"
#include "apps/verbs.h"
#include "apps/weights_file.h"
#include "ops/nn/network.h"
#include "ops/primitives/softmax_cross_entropy.h"
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
    throw Error(ErrorCode::usage,
                fmt::format("{} holds weights without options", weights.path.string()),
                "name the options file with --options FILE");
  // The run's own starting point may be gone by now, and does not matter any more.
  std::vector<std::string> overrides = {"model.weights="};
  overrides.insert(overrides.end(), arguments.overrides.begin(), arguments.overrides.end());
  return parse_options(weights.options, (weights.path / "manifest.json").string(), overrides);
}

EvaluationReport count_test_set(const Options& options, const WeightsFile& weights) {
  const Dataset data = open_dataset(dataset_options(options));
  Model model = make_model(model_options(options));
  const std::size_t blocks = model.blocks.size();
  const Stream stream{.threads = options.parallel.intra_op_threads};
  Network network(std::move(model), 0, blocks, precision_of(options), stream);
  network.use(state_from(network.spec(), network.dtype(), weights.tensors, weights.step,
                         /*with_optimizer=*/false, /*strict=*/true));

  const SampleTransform transform(transform_options(options, Split::test), data.sample_shape());
  const BatchMaker maker(data, Split::test, transform);
  Sampler sampler =
      Sampler::for_evaluation(data.count(Split::test), options.train.batch_size, 1, 1);
  EvaluationReport report;
  for (std::int64_t step = 0; step < sampler.batches_per_epoch(); ++step) {
    for (auto& plan : sampler.plan(step, 0)) {
      const Batch batch = maker.make(std::move(plan));
      const LossOutput loss = softmax_cross_entropy(stream, network.evaluate(batch.images),
                                                    batch.labels, 1.0, /*with_gradient=*/false);
      report.loss += loss.loss_sum;
      report.correct += loss.correct;
      report.count += batch.labels.element_count();
    }
  }
  report.loss /= static_cast<double>(report.count);
  return report;
}

int evaluate(const EvalArguments& arguments) {
  const WeightsFile weights = read_weights(arguments.checkpoint);
  const EvaluationReport report = count_test_set(options_for(arguments, weights), weights);
  fmt::print("{}\ntest loss {:.9g}\n{}\n", weights.path.string(), report.loss,
             accuracy_line(report));
  return exit_done;
}

}  // namespace

void add_eval_verb(CLI::App& app, ChosenVerb& chosen) {
  auto arguments = std::make_shared<EvalArguments>();
  CLI::App* verb = app.add_subcommand("eval", "Count the test set with a checkpoint's weights");
  verb->add_option("CHECKPOINT", arguments->checkpoint,
                   "checkpoint, output folder for its newest whole one, or safetensors file")
      ->required();
  verb->add_option("--options", arguments->options,
                   "options file, in place of those that the checkpoint holds");
  verb->add_option("-r,--override", arguments->overrides, "KEY=VALUE in place of the options'")
      ->allow_extra_args(false);
  verb->callback([arguments, &chosen] { chosen = [arguments] { return evaluate(*arguments); }; });
}

}  // namespace troupe
