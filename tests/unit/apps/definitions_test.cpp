// Models, data sets and optimizers of a program's own, as options files name them.
#include "apps/options/definitions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "apps/train/run_log.h"
#include "apps/train/training.h"
#include "ops/models/models.h"
#include "runtime/error.h"
#include "runtime/print.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

struct OneLayer {
  static constexpr std::string_view name = "one_layer";
  bool bias = true;

  OptionFields options() { return {field("model.bias", bias, "add a bias")}; }
  Model make(const SampleSpec& samples) const {
    Model model;
    model.add<nn::Flatten>("flatten");
    model.add<nn::Linear>("layer", LinearOptions{.in_features = samples.shape.element_count(),
                                                 .out_features = samples.classes,
                                                 .bias = bias});
    return model;
  }
};

/// relu(x + layers(x)), as in ResNets.
class ResidualBlock final : public nn::Module {
 public:
  ResidualBlock(std::string path, std::int64_t channels)
      : Module(std::move(path)),
        first_(child<nn::Conv2d>("conv1", convolution(channels))),
        norm_(child<nn::BatchNorm2d>("bn1", norm(channels))),
        second_(child<nn::Conv2d>("conv2", convolution(channels))),
        sum_(child<nn::BatchNorm2d>("bn2", norm(channels))) {}

  Value forward(Tape& tape, Value x) override {
    const Value inner = norm_.forward(tape, first_.forward(tape, x));
    return sum_.forward(tape, second_.forward(tape, inner), x);
  }

 private:
  static ConvolutionOptions convolution(std::int64_t channels) {
    return {.in_channels = channels,
            .out_channels = channels,
            .padding_h = 1,
            .padding_w = 1,
            .bias = false};
  }
  static nn::BatchNormOptions norm(std::int64_t channels) {
    return {.features = channels, .relu = true, .residual_first = true};
  }

  nn::Conv2d& first_;
  nn::BatchNorm2d& norm_;
  nn::Conv2d& second_;
  nn::BatchNorm2d& sum_;
};

struct SmallResNet {
  static constexpr std::string_view name = "small_resnet";

  OptionFields options() { return {}; }
  Model make(const SampleSpec& samples) const {
    const std::int64_t channels = samples.shape[0];
    Model model;
    model.add<ResidualBlock>("block1", channels);
    model.add<ResidualBlock>("block2", channels);
    model.add<nn::Sequential>("head").add<nn::Flatten>("0").add<nn::Linear>(
        "1", LinearOptions{.in_features = samples.shape.element_count(),
                           .out_features = samples.classes});
    return model;
  }
};

/// Has no description but that of its reader.
struct Signs {
  static constexpr std::string_view name = "signs";

  class Reader final : public SampleReader {
   public:
    std::string_view name() const override { return "signs"; }
    SampleSpec samples() const override { return {.shape = {1}, .classes = 2}; }
    std::int64_t count(Split split) const override { return split == Split::train ? 640 : 10; }
    void read(Split, std::int64_t index, Tensor sample, Tensor target) const override {
      sample.data<float>()[0] = index % 2 == 0 ? -1.0f : 1.0f;
      target.data<std::int64_t>()[0] = index % 2;
    }
  };
  std::shared_ptr<const SampleReader> open(const DatasetOptions&) const {
    return std::make_shared<Reader>();
  }
};

/// Counts how often it is opened.
struct Counted : Signs {
  static constexpr std::string_view name = "counted";
  static inline int opened = 0;

  std::shared_ptr<const SampleReader> open(const DatasetOptions& options) const {
    ++opened;
    return Signs::open(options);
  }
};

struct Pull {
  static constexpr std::string_view name = "pull";
  double strength = 0.25, most = 0.5;

  OptionFields options() {
    return {field("train.strength", strength, "strength of the pull", {.above = 0}),
            field("train.most", most, "most strength", {.above = 0})};
  }
  void check() const {
    if (strength > most)
      throw Error(ErrorCode::bad_options, "`strength` exceeds `most`", "lower `strength`");
  }
  std::vector<std::string> state_names() const { return {}; }
  void update(const Stream&, const OptimizerStep&, const OptimizerSlice& slice) const {
    Tensor to = slice.new_weights;
    for (std::int64_t i = 0; i < slice.weights.element_count(); ++i)
      to.data<float>()[i] = slice.weights.data<float>()[i] * static_cast<float>(1 - strength);
  }
};

const Definitions own{.models = {OneLayer{}}, .datasets = {Signs{}}, .optimizers = {Pull{}}};
constexpr std::string_view file =
    "model: {name: one_layer, bias: false}\n"
    "data: {name: signs}\n"
    "train: {optimizer: pull, strength: 0.5}\n";

Error refusal(std::string_view text, const std::vector<std::string>& overrides,
              const Definitions& definitions) {
  try {
    parse_options(text, "o.yaml", overrides, definitions);
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::internal, "nothing was refused");
}

TEST(OwnDefinitions, ReachTheRunWithTheirOptions) {
  const PipelineOptions pipeline = pipeline_options(parse_options(file, "o.yaml", {}, own), {});
  EXPECT_EQ(pipeline.model.name(), "one_layer");
  EXPECT_EQ(pipeline.data.dataset.samples().shape, Shape{1});
  EXPECT_EQ(pipeline.data.dataset.count(Split::train), 640);
  EXPECT_EQ(model_of(pipeline).blocks.size(), 2u);
  const float one = 1;
  const Tensor weights = Tensor::from<float>({1}, std::span(&one, 1)),
               result = Tensor::zeros({1}, DType::f32);
  pipeline.optimizer.update({}, {}, {.weights = weights, .new_weights = result});
  EXPECT_EQ(result.data<float>()[0], 0.5f);
}

TEST(OwnDefinitions, AreWrittenAndReadBack) {
  const std::string resolved = resolved_yaml(parse_options(file, "o.yaml", {}, own));
  EXPECT_THAT(resolved, AllOf(HasSubstr("  bias: false\n"), HasSubstr("  strength: 0.5\n")));
  EXPECT_EQ(resolved_yaml(parse_options(resolved, "o.yaml", {}, own)), resolved);
}

TEST(OwnDefinitions, OfTheSameNameEndAnyVerbWithAnError) {
  const Definitions twice{.models = {OneLayer{}, OneLayer{}}};
  for (const char* word : {"options", "train", "no_such_verb"}) {
    const Ran ran = run_troupe({word, "o.yaml"}, twice);
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.error, HasSubstr("two definitions have the model.name one_layer"));
  }
}

struct OneLayerWithKey {
  static constexpr std::string_view name = "keyed";
  std::string key;
  std::int64_t value = 0;

  OptionFields options() { return {field(key, value, "a number")}; }
  Model make(const SampleSpec&) const { return {}; }
};

TEST(OwnDefinitions, WithAKeyThatIsNotTheirsEndAnyVerbWithAnError) {
  const auto error_of = [](const std::string& key) {
    const Ran ran = run_troupe({"options"}, {.models = {OneLayerWithKey{.key = key}}});
    EXPECT_EQ(ran.code, ran.error.empty() ? 0 : 2);
    return ran.error;
  };
  EXPECT_EQ(error_of("model.value"), "");
  EXPECT_THAT(error_of("value"), HasSubstr("the definition keyed has the key value, which does not "
                                           "begin with model.\n  try: call it model.value"));
  EXPECT_THAT(error_of("train.lr"), HasSubstr("does not begin with model."));
  EXPECT_THAT(error_of("model.weights"),
              HasSubstr("a definition has the key model.weights, which Troupe has too"));
}

struct WithoutReader {
  static constexpr std::string_view name = "without_reader";
  std::shared_ptr<const SampleReader> open(const DatasetOptions&) const { return nullptr; }
};

TEST(OwnDefinitions, EndARunWithAnErrorWhereADataSetHasNoReader) {
  EXPECT_THROW(static_cast<void>(open_dataset(WithoutReader{})), Error);
  EXPECT_THROW(static_cast<void>(DatasetSource(WithoutReader{}).describe()), Error);
}

TEST(OwnDefinitions, RefuseAParameterGroupWithAValueOfAnotherOptimizer) {
  constexpr std::string_view groups =
      "model: {name: one_layer}\ndata: {name: signs}\n"
      "train: {groups: [{parameters: ['*.bias'], strength: 0.1}]}\n";
  EXPECT_EQ(refusal(groups, {"train.optimizer=pull"}, own).message(), "nothing was refused");
  EXPECT_THAT(refusal(groups, {}, own).message(),
              HasSubstr("the parameter group [*.bias] sets strength, which sgd does not have"));
}

TEST(OwnDefinitions, MayHaveBlocksThatAddTheirInput) {
  const test::TemporaryFolder folder;
  const std::string options = (folder / "o.yaml").string(), run = (folder / "run").string();
  test::write_text(options,
                   "model: {name: small_resnet}\n"
                   "data: {name: synthetic, shape: [2, 6, 6], classes: 3, count: 12}\n"
                   "train: {steps: 2, batch_size: 6, micro_batches: 1}\n");
  const Definitions definitions{.models = {SmallResNet{}}};
  const Ran trained =
      run_troupe({"train", options, "-o", run, "-r", "parallel.pipeline=2"}, definitions);
  ASSERT_EQ(trained.code, exit_done) << trained.error;
  EXPECT_THAT(run_troupe({"inspect", run}, definitions).out,
              AllOf(HasSubstr("block1.conv2.weight"), HasSubstr("block2.bn2.running_var")));
}

TEST(OwnDefinitions, AreUnknownToOtherPrograms) {
  EXPECT_THAT(refusal("model: {name: one_layer}", {}, {}).message(), HasSubstr("one_layer"));
}

TEST(OwnDefinitions, RefuseOptionsAtTheKeysThatTheirErrorsName) {
  const Error error = refusal(file, {"train.most=0.3"}, own);
  EXPECT_THAT(error.message(),
              StartsWith("override -r train.most=0.3: train.strength exceeds train.most"));
  EXPECT_EQ(error.remedy(), "lower train.strength");
}

/// Declares a key of the library's models with a range of its own.
struct Narrow : OneLayer {
  static constexpr std::string_view name = "narrow";
  double dropout = 0.25;

  OptionFields options() {
    return {field("model.dropout", dropout, "share to drop", {.at_least = 0, .below = 0.5})};
  }
};

TEST(OwnDefinitions, CheckASharedKeyByTheRangeOfTheChosenOne) {
  const Definitions narrow{.models = {Narrow{}}};
  EXPECT_EQ(refusal("model: {dropout: 0.75}", {}, narrow).message(), "nothing was refused");
  EXPECT_THAT(refusal("model: {dropout: 0.75, name: narrow}", {}, narrow).message(),
              StartsWith("o.yaml:1:18: model.dropout is 0.75; it must be a number >= 0, < 0.5"));
}

TEST(OwnDefinitions, NeedNamesOfTheirOwn) {
  EXPECT_THAT(refusal("", {}, {.models = {Mlp{}}}).message(), HasSubstr("mlp"));
  EXPECT_THAT(refusal("", {}, {.datasets = {Signs{}, Signs{}}}).message(), HasSubstr("signs"));
}

TEST(OwnDefinitions, AreListed) {
  EXPECT_THAT(options_listing(own), AllOf(HasSubstr("model.bias"), HasSubstr("train.strength"),
                                          HasSubstr("synthetic, signs")));
}

TEST(OwnDefinitions, ArePlannedByTheCommand) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "o.yaml").string();
  std::ofstream(path) << file;
  const Ran ran = run_troupe({"plan", path}, own);
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, StartsWith("one_layer: 2 blocks in 1 stage"));
}

TEST(OwnDefinitions, OpenADataSetOnceInEachCommand) {
  const test::TemporaryFolder folder;
  const std::string path = (folder / "o.yaml").string(), run = (folder / "run").string();
  std::ofstream(path) << "model: {name: one_layer}\ndata: {name: counted}\ntrain: {epochs: 1}\n";
  const Definitions counted{.models = {OneLayer{}}, .datasets = {Counted{}}};
  const auto opened_by = [&](const std::vector<std::string>& words) {
    Counted::opened = 0;
    const Ran ran = run_troupe(words, counted);
    EXPECT_EQ(ran.code, exit_done) << words[0] << ": " << ran.error;
    return Counted::opened;
  };
  EXPECT_EQ(opened_by({"train", path, "-o", run}), 1);
  EXPECT_EQ(opened_by({"train", path, "-o", run, "--restart", "auto", "-r", "train.epochs=2"}), 1);
  EXPECT_EQ(opened_by({"eval", run}), 1);
  EXPECT_EQ(opened_by({"plan", path}), 1);
  EXPECT_EQ(opened_by({"options", path}), 1);
}

TEST(OwnDefinitions, ErrorsOfARunNameTheirKeys) {
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  {
    RunLog log(folder, {.steps = 1, .steps_per_epoch = 1}, {}, 1, own);
    log.record_failure(Error(ErrorCode::diverged, "`strength` is too much"));
    log.finish();
  }
  EXPECT_THAT(test::read_text(folder.log()), HasSubstr("failed: train.strength is too much"));
}

TEST(OwnDefinitions, MessagesNameTheirProgram) {
  const std::string program(program_name());
  ASSERT_NE(program, "troupe");
  const Ran wrong = run_troupe({"trian"}, own);
  EXPECT_THAT(wrong.error, StartsWith(program + ": error: unknown verb: trian"));
  EXPECT_THAT(wrong.error, HasSubstr("did you mean " + program + " train?"));
  const Ran help = run_troupe({"--help"}, own);
  EXPECT_THAT(help.out, HasSubstr(program + " VERB --help shows"));
}

TEST(OwnDefinitions, DoNotResumeARunOfAnotherOptimizer) {
  const Options options = parse_options(file, "o.yaml", {}, own);
  StartingPoint start{.checkpoint = "step_1", .options = resolved_yaml(options)};
  EXPECT_NO_THROW(check_continues(options, start));
  const Options other = parse_options(file, "o.yaml", {"train.optimizer=sgd"}, own);
  try {
    check_continues(other, start);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("train.optimizer is sgd, but step_1 was written with"));
    EXPECT_THAT(error.remedy(), HasSubstr("-r train.optimizer=pull"));
  }
}

}  // namespace
}  // namespace troupe
