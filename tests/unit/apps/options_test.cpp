// Troupe's own options: defaults, ranges, what goes together, the resolved file, the page.
#include "apps/options/options.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "apps/options/load_options.h"
#include "apps/options/options_table.h"
#include "ops/graph/read_graph.h"
#include "runtime/error.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string refusal(std::string_view text, const std::vector<std::string>& overrides = {}) {
  try {
    parse_options(text, "o.yaml", overrides);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    // The choices of an option say themselves what to write.
    const bool lists_choices = error.message().find("must be one of") != std::string::npos;
    EXPECT_TRUE(lists_choices || !error.remedy().empty()) << error.message();
    return error.message() + "\n" + error.remedy();
  }
  return "no error";
}

TEST(Options, ParameterGroupsAreCheckedAgainstTheModelAndTheOptimizer) {
  const auto with = [](const std::string& group) {
    return refusal("model: {name: mlp}\ndata: {name: synthetic}\ntrain:\n  groups: [" + group +
                   "]");
  };
  EXPECT_EQ(with("{parameters: ['*.bias'], weight_decay: 0}"), "no error");
  EXPECT_THAT(with("{parameters: ['*.bais'], weight_decay: 0}"),
              testing::AllOf(HasSubstr("o.yaml:4:11: the parameter group [*.bais]: no parameter of "
                                       "the model matches *.bais"),
                             HasSubstr("0.bias")));
  EXPECT_THAT(with("{weight_decay: 0}"), HasSubstr("[]: it has no parameters"));
  EXPECT_THAT(with("{parameters: ['*.bias']}"), HasSubstr("[*.bias] sets no value"));
  EXPECT_THAT(with("{parameters: ['*'], beta: 3}"), HasSubstr("unknown key beta"));
  EXPECT_THAT(with("{parameters: ['*'], lr: -1}"),
              HasSubstr("lr is -1; it must be a number from 0"));
  EXPECT_THAT(
      with("{parameters: ['*'], momentum: 0, nesterov: true}"),
      HasSubstr("o.yaml:4:11: the parameter group [*]: nesterov is true, but momentum is 0"));
}

TEST(Options, OfACheckpointThatThisProgramDoesNotKnowAskForTheProgramThatWroteIt) {
  const auto remedy = [](const std::vector<std::string>& overrides) -> std::string {
    try {
      parse_recorded_options("model: {name: deep}", "a/manifest.json", overrides, {});
    } catch (const Error& error) {
      return error.remedy();
    }
    return "no error";
  };
  EXPECT_EQ(remedy({}), "use the program that wrote this file");
  EXPECT_EQ(remedy({"model.name=mlp"}), "no error");
  EXPECT_THAT(remedy({"model.name=deeper"}), HasSubstr("export the model from PyTorch"));
}

TEST(Options, OfACheckpointThatNoLongerFitKeepTheirRemedy) {
  const std::string graph = std::string(TROUPE_SOURCE_DIR) + "/tests/golden/graphs/tied.onnx";
  const auto refusal = [](const std::string& text) -> std::string {
    try {
      parse_recorded_options(text, "a/manifest.json", {}, {});
    } catch (const Error& error) {
      return error.message() + "\n" + error.remedy();
    }
    return "no error";
  };
  const auto with_digest = [&](const std::string& digest) {
    return refusal("data: {name: synthetic, shape: [3, 20, 24], classes: 10}\nmodel: {file: " +
                   graph + ", digest: " + digest + "}");
  };
  std::string digest = graph::digest(graph::read_graph(graph));
  EXPECT_EQ(with_digest(digest), "no error");
  digest.back() = digest.back() == '0' ? '1' : '0';
  EXPECT_THAT(with_digest(digest), AllOf(HasSubstr("another value of a constant"),
                                         HasSubstr("\nuse the file of the run")));
  digest.front() = digest.front() == '0' ? '1' : '0';
  EXPECT_THAT(with_digest(digest),
              AllOf(HasSubstr("model.digest is"), HasSubstr("\nuse the file of the run")));
  EXPECT_THAT(refusal("model: {name: mlp}\ndata: {name: csv, path: /gone}"),
              AllOf(HasSubstr("a/manifest.json:2:25: data.path is /gone, which does not exist"),
                    HasSubstr("\nset data.path to")));
  EXPECT_THAT(refusal("model: {depth: 3}"), HasSubstr("\nuse the program that wrote this file"));
}

TEST(Options, NamesOfOtherModelsLeadToTheOwnSizesAndToExport) {
  const std::string other = refusal("model: {name: resnet101}");
  EXPECT_THAT(other, HasSubstr("there are resnet18, resnet34, resnet50; for others, export"));
  EXPECT_THAT(other, Not(HasSubstr("did you mean")));
  EXPECT_THAT(refusal("model: {name: vgg16}"), HasSubstr("\nexport the model from PyTorch and set "
                                                         "model.file"));
  EXPECT_THAT(refusal("model: {name: rsnet18}"), HasSubstr("did you mean resnet18?"));
}

TEST(Options, AnOverrideOfTheModelWinsOverTheFile) {
  const std::string graph = std::string(TROUPE_SOURCE_DIR) + "/tests/golden/graphs/resnet18.pt2";
  const std::string data = "data: {name: synthetic, shape: [3, 20, 24], classes: 10}\n";
  const Options file = parse_options(data + "model: {name: wide_resnet, widths: [4, 4, 4, 4]}",
                                     "o.yaml", {"model.file=" + graph});
  EXPECT_EQ(file.model.name, "file");
  EXPECT_THAT(file.warnings, Contains(HasSubstr("model.widths has no effect")));
  const Options classes =
      parse_options(data, "o.yaml", {"model={file: " + graph + ", classes: 3}"});
  EXPECT_THAT(classes.warnings,
              Contains(HasSubstr("model.classes has no effect with model.file; the model in '" +
                                 graph + "' has 10 outputs")));
  EXPECT_EQ(
      parse_options(data + "model: {file: " + graph + "}", "o.yaml", {"model.name=mlp"}).model.name,
      "mlp");
  EXPECT_THAT(refusal(data + "model: {name: mlp, file: " + graph + "}"),
              HasSubstr("leave out one of them"));
}

TEST(Options, ErrorsOfAModelOfAFileNameTheFile) {
  const std::string graph = std::string(TROUPE_SOURCE_DIR) + "/tests/golden/graphs/resnet18.pt2";
  const auto with = [&](const std::string& data, const std::string& more = "") {
    return refusal("data: {name: synthetic, shape: [3, 20, 24], " + data +
                   "}\nmodel: {file: " + graph + "}\n" + more);
  };
  EXPECT_THAT(with("classes: 20"), AllOf(HasSubstr("the model in '" + graph + "' has 10 outputs"),
                                         HasSubstr("export the model with 20 outputs")));
  EXPECT_THAT(with("classes: 10", "parallel: {pipeline: 99}"),
              HasSubstr("is 99, but the model in " + graph + " has "));
  EXPECT_THAT(refusal("model: {digest: abc, file: " + graph + "}",
                      {"data.name=synthetic", "data.shape=[3, 20, 24]", "data.classes=10"}),
              HasSubstr("o.yaml:1:17: the graph in '"));
}

TEST(Options, DefaultsGoTogether) { EXPECT_EQ(refusal(""), "no error"); }

TEST(Options, TheFormerNameOfThePartitionIsRead) {
  const std::string old = "parallel: {pipeline: 2, cut: [5, 7]}";
  using Blocks = std::vector<std::size_t>;
  EXPECT_EQ(parse_options(old, "o.yaml").pipeline.partition, (Blocks{5, 7}));
  EXPECT_EQ(parse_options(old, "o.yaml", {"parallel.cut=auto"}).pipeline.partition, Blocks{});
}

TEST(Options, APartitionTellsTheStagesItIsFor) {
  EXPECT_THAT(
      refusal("", {"parallel.partition=[5, 7]"}),
      HasSubstr(
          "give one number for each stage, such as [12], or auto, or set parallel.pipeline to 2"));
}

TEST(Options, AreRefusedUnderBothOfTheirNames) {
  EXPECT_THAT(refusal("parallel: {pipeline: 2, partition: [4, 8], cut: [5, 7]}"),
              testing::StartsWith("o.yaml:1:49: parallel.cut is the former name of "
                                  "parallel.partition, which is set too (o.yaml:1:36)\n"));
  EXPECT_THAT(
      refusal("parallel: {pipeline: 2, cut: [5, 7]}", {"parallel.partition=[4, 8]"}),
      testing::StartsWith("o.yaml:1:30: parallel.cut is the former name of parallel.partition, "
                          "which is set too (override -r parallel.partition=[4, 8])\n"));
}

std::vector<std::string> warnings_of(std::string_view text,
                                     const std::vector<std::string>& overrides = {}) {
  return parse_options(text, "o.yaml", overrides).warnings;
}

TEST(Options, TellWhichOfThemHaveNoEffect) {
  using testing::ElementsAre;
  EXPECT_THAT(warnings_of("model: {name: mlp, dropout: 0.5}", {"convolution=direct"}),
              ElementsAre("override -r convolution=direct: convolution has no effect with "
                          "model.name mlp, only with cifar_cnn, file, "
                          "mnist_cnn, resnet18, resnet34, resnet50, wide_resnet",
                          "o.yaml:1:29: model.dropout has no effect with model.name mlp, only "
                          "with wide_resnet"));
  EXPECT_THAT(warnings_of("data: {classes: 7}"),
              ElementsAre(HasSubstr("data.classes has no effect with data.name fashion_mnist")));
  EXPECT_THAT(warnings_of("train: {step_factor: 0.5}"),
              ElementsAre(HasSubstr("train.step_factor has no effect with train.schedule "
                                    "constant, only with step")));
  EXPECT_THAT(warnings_of("train: {step_factor: 0.5, schedule: step}"), testing::IsEmpty());
  EXPECT_THAT(warnings_of("model: {name: mlp, widths: [8]}"), testing::IsEmpty());
  EXPECT_THAT(warnings_of(resolved_yaml(parse_options("model: {name: mlp}", "o.yaml"))),
              testing::IsEmpty())
      << "a resolved file has every key";
}

TEST(Options, TellWhichOfThemAnotherOptimizerHas) {
  using testing::ElementsAre;
  EXPECT_THAT(warnings_of("train: {optimizer: adamw, momentum: 0.5, lr: 0.01}"),
              ElementsAre("o.yaml:1:37: train.momentum has no effect with train.optimizer adamw, "
                          "only with sgd"));
  EXPECT_THAT(warnings_of("train: {betas: [0.5, 0.9], weight_decay: 0.1}"),
              ElementsAre("o.yaml:1:16: train.betas has no effect with train.optimizer sgd, only "
                          "with adam, adamw"));
  EXPECT_THAT(warnings_of("train: {optimizer: adam}"),
              ElementsAre("train.lr is 0.1, the default; adam usually takes about "
                          "0.001"));
  EXPECT_THAT(refusal("train: {optimizer: adam, betas: [0.9]}"),
              testing::AllOf(HasSubstr("o.yaml:1:33: adam needs two train.betas, not 1"),
                             HasSubstr("[0.9, 0.999]")));
  EXPECT_THAT(refusal("train: {optimizer: adam, groups: [{parameters: ['*'], momentum: 0}]}"),
              HasSubstr("sets momentum, which adam does not have"));
}

TEST(Options, EveryKeyOfTheirDocumentationIsRead) {
  const Options options = parse_options(R"(
seed: 7
model: {name: wide_resnet, widths: [16, 16, 32, 64], classes: 12, dropout: 0.01}
data: {name: synthetic, shape: [3, 32, 32], classes: 12, count: 640, mean: [0.286, 0.3, 0.3],
       std: [0.353], shuffle: false, augment: [flip, crop], drop_last: false, workers: 2, limit: 64}
train: {epochs: 2, steps: 100, batch_size: 64, micro_batches: 4, lr: 0.05, optimizer: sgd,
        momentum: 0.9, weight_decay: 0.0005, nesterov: true, schedule: one_cycle, warmup_steps: 1}
parallel: {pipeline: 2, data: 2, schedule: gpipe, partition: [5, 7], actor_threads: 2,
           intra_op_threads: 2}
checkpoint: {every_steps: 500, keep: 2}
log: {every_steps: 10}
trace: true
precision: 64-true
convolution: direct
faults: [{actor: stage/1, step: 3, micro_batch: 2}, {actor: stage/0/1}]
restarts: {max: 1, within: 30}
)",
                                        "o.yaml");
  EXPECT_EQ(options.pipeline.seed, 7u);
  EXPECT_EQ(options.pipeline.data.augment, (std::vector<Augment>{Augment::flip, Augment::crop}));
  EXPECT_EQ(options.pipeline.partition, (std::vector<std::size_t>{5, 7}));
  EXPECT_EQ(options.run.faults.size(), 2u);
  EXPECT_EQ(options.run.faults[0].actor, "stage/1");
  EXPECT_EQ(options.run.faults[0].micro_batch, 2u);
  EXPECT_EQ(options.run.restarts.within, std::chrono::seconds(30));
}

TEST(Options, OlderFilesMayNameTheChannelsOfTheSamples) {
  const std::string old =
      "model: {name: mlp, in_channels: 3}\ndata: {name: synthetic, shape: [3, 4, 4]}";
  EXPECT_THAT(resolved_yaml(parse_options(old, "o.yaml")), Not(HasSubstr("in_channels")));
  EXPECT_THAT(refusal(old, {"data.shape=[2, 4, 4]"}),
              HasSubstr("o.yaml:1:33: model.in_channels is 3, but samples of synthetic have 2"));
}

TEST(Options, OfAnEarlierRunDoNotDependOnItsFiles) {
  const std::string old = "model: {in_channels: 3, weights: /gone}\ndata: {path: /gone}";
  EXPECT_EQ(parse_past_options(old, "o.yaml", Options()).weights, "");
}

TEST(Options, BucketsAreWrittenAsTheyWereRead) {
  for (const std::string mebibytes : {"0.1", "25", "0.3", "1000000"})
    EXPECT_EQ(option_text(parse_options("", "o.yaml", {"parallel.bucket_cap_mb=" + mebibytes}),
                          "parallel.bucket_cap_mb"),
              mebibytes);
}

TEST(Options, TheResolvedFileGivesTheSameOptions) {
  const std::string resolved = resolved_yaml(parse_options(
      "train: {lr: 0.1234567890123}\nparallel: {pipeline: 2}", "o.yaml",
      {"faults=[{actor: stage/1, step: 3, micro_batch: 2}]", "data.path=/usr", "seed=3"}));
  EXPECT_EQ(resolved_yaml(parse_options(resolved, "options_restart.yaml")), resolved);
  EXPECT_THAT(resolved, HasSubstr("  lr: 0.1234567890123\n"));
  EXPECT_THAT(resolved, HasSubstr("faults: [{actor: stage/1, step: 3, micro_batch: 2}]\n"));
}

TEST(Options, StepsBeyond32BitsAreRefused) {
  const std::string run = "data: {name: synthetic, count: 640}\n";
  for (const char* key : {"train.steps", "train.warmup_steps", "checkpoint.every_steps"}) {
    EXPECT_THAT(refusal(run, {std::string(key) + "=4294967297"}),
                HasSubstr("it must be an integer from 0 to 4294967295"));
  }
  EXPECT_EQ(refusal(run, {"train.steps=4294967295"}), "no error");
  EXPECT_THAT(refusal(run, {"faults=[{actor: stage/0, step: 4294967297}]"}),
              HasSubstr("4294967295"));
  EXPECT_THAT(refusal(run, {"faults=[{actor: stage/0, micro_batch: 4294967296}]"}),
              HasSubstr("0 to 4096"));
}

TEST(Options, WholeNumbersWithLeadingZerosAreRefused) {
  EXPECT_THAT(refusal("", {"seed=010"}),
              HasSubstr("write 10: some YAML parsers read a number with a leading zero as octal"));
  EXPECT_THAT(refusal("train: {epochs: +02}"), HasSubstr("write 2:"));
  EXPECT_THAT(refusal("parallel: {partition: [05, 7], pipeline: 2}"), HasSubstr("write 5:"));
  EXPECT_EQ(refusal("train: {lr: 0.05, steps: 0}"), "no error");
}

TEST(Options, AnEmptyOverrideIsNamed) {
  EXPECT_THAT(refusal("", {"train.lr="}),
              testing::StartsWith("override -r train.lr=: train.lr is empty"));
}

TEST(Options, ThePageOfTheDocumentationIsWhatTheProgramPrints) {
  std::ifstream file(TROUPE_SOURCE_DIR "/docs/options.md");
  std::stringstream page;
  page << file.rdbuf();
  EXPECT_EQ(page.str(), options_markdown())
      << "run build/release/bin/troupe options --markdown > docs/options.md";
}

TEST(Options, TheShapeOfSyntheticSamplesHasThreeSizes) {
  EXPECT_THAT(
      refusal("data: {name: synthetic}", {"data.shape=[28, 28]"}),
      testing::AllOf(HasSubstr("override -r data.shape"), HasSubstr("data.shape has 2 sizes")));
}

TEST(Options, AFileWithoutAnyIsSaidToBeEmpty) {
  const test::TemporaryFolder folder;
  const auto warnings = [&](const char* text) {
    test::write_text(folder / "o.yaml", text);
    return load_options(folder / "o.yaml", {"train.epochs=2"}).warnings;
  };
  const auto empty = Contains(HasSubstr("o.yaml sets no option, so the defaults apply"));
  EXPECT_THAT(warnings(""), empty);
  EXPECT_THAT(warnings("# nothing yet\n"), empty);
  EXPECT_THAT(warnings("seed: 2\n"), Not(empty));
}

TEST(Options, TheListingOfAKeyOrASectionNamesNoOther) {
  EXPECT_THAT(options_listing({}, "train.lr"),
              testing::AllOf(HasSubstr("\ntrain.lr "), Not(HasSubstr("train.lr_")),
                             Not(HasSubstr("seed"))));
  EXPECT_THAT(options_listing({}, "train"),
              testing::AllOf(HasSubstr("\ntrain.lr "), HasSubstr("\ntrain.steps "),
                             Not(HasSubstr("\nparallel."))));
  EXPECT_EQ(options_listing({}, "tra"), "");
}

TEST(Options, TheListingNamesEveryKey) {
  Options options;
  for (const auto& field : option_fields(options)) {
    EXPECT_THAT(options_listing(), HasSubstr(field.path));
    EXPECT_FALSE(field.help.empty() || field.type.empty()) << field.path;
    EXPECT_NE(field.help.back(), '.') << field.path;
  }
}

struct WrongValue {
  std::string override_text;
  std::string says;
};
void PrintTo(const WrongValue& value, std::ostream* out) { *out << value.override_text; }

class WrongOption : public testing::TestWithParam<WrongValue> {};

TEST_P(WrongOption, IsRefusedWithItsNameAndPosition) {
  const std::string path = GetParam().override_text.substr(0, GetParam().override_text.find('='));
  const std::string message = refusal("", {GetParam().override_text});
  EXPECT_THAT(message, HasSubstr("override -r " + path));
  EXPECT_THAT(message, HasSubstr(GetParam().says));
}

INSTANTIATE_TEST_SUITE_P(
    Alone, WrongOption,
    testing::Values(
        WrongValue{"seed=-1", "2^64"}, WrongValue{"train.batch_size=1e3", "write 1000"},
        WrongValue{"train.batch_size=-3.0", "write 1 or more"},
        WrongValue{"train.epochs=2.5", "write a whole number"},
        WrongValue{"train.epochs=nan", "write a value such as 4"},
        WrongValue{"seed=-1", "write 0 or more"},
        WrongValue{"parallel.intra_op_threads=-1", "write 1 or more"},
        WrongValue{"parallel.intra_op_threads=1.5", "write auto, or a whole number"},
        WrongValue{"parallel.partition=[1.5,2]", "\nwrite a whole number"},
        WrongValue{"precision=f16", "32-true, 64-true, bf16-mixed"},
        WrongValue{"convolution=fft", "winograd"}, WrongValue{"trace=1", "true or"},
        WrongValue{"model.name=resnet", "did you mean resnet18?"},
        WrongValue{"model.in_channels=0", "from 1"}, WrongValue{"model.widths=[0]", "from 1"},
        WrongValue{"model.classes=0", "from 1"}, WrongValue{"model.dropout=1", "< 1"},
        WrongValue{"model.dropout=-0.1", ">= 0"},
        WrongValue{"data.name=mnits", "did you mean mnist?"},
        WrongValue{"data.name=FashionMNIST", "did you mean fashion_mnist?"},
        WrongValue{"data.shape=[1, 0, 1]", "from 1"}, WrongValue{"data.classes=0", "from 2"},
        WrongValue{"data.count=0", "from 1"}, WrongValue{"data.mean=0.5", "write [0.5]"},
        WrongValue{"data.mean=0.5, 0.25", "write [0.5, 0.25]"},
        WrongValue{"data.mean=0.5,,", "a list such as [0.1]"}, WrongValue{"data.std=[0]", "> 0"},
        WrongValue{"data.shuffle=no", "true or"},
        WrongValue{"data.augment=[flop]", "did you mean flip?"},
        WrongValue{"data.augment=[RandomCrop]", "did you mean crop?"},
        WrongValue{"data.augment=[cutmix]", "set data.cutmix_alpha"},
        WrongValue{"data.name=imagenet", "image_folder reads folders of images"},
        WrongValue{"data.drop_last=2", "true or"}, WrongValue{"data.workers=-1", "from 0"},
        WrongValue{"data.limit=-5", "from 0"}, WrongValue{"data.test_limit=-5", "from 0"}));
INSTANTIATE_TEST_SUITE_P(
    Training, WrongOption,
    testing::Values(
        WrongValue{"train.epochs=0", "from 1"}, WrongValue{"train.steps=-1", "from 0"},
        WrongValue{"train.batch_size=0", "from 1"}, WrongValue{"train.micro_batches=0", "from 1"},
        WrongValue{"train.lr=-1", "from 0"}, WrongValue{"train.lr=.inf", "number"},
        WrongValue{"train.optimizer=adan", "did you mean adam?"},
        WrongValue{"train.momentum=1", "< 1"}, WrongValue{"train.weight_decay=-1", "from 0"},
        WrongValue{"train.nesterov=maybe", "true or"},
        WrongValue{"train.betas=0.9", "such as [0.9, 0.999]"},
        WrongValue{"train.betas=[0.9, 1]", "less than 1"}, WrongValue{"train.epsilon=-1", "from 0"},
        WrongValue{"train.eps=1e-6", "did you mean train.epsilon?"},
        WrongValue{"train.beta1=0.9", "did you mean train.betas?"},
        WrongValue{"train.clip_value=-1", "from 0"},
        WrongValue{"train.freeze=[layer7.*]", "no parameter of the model matches layer7.*"},
        WrongValue{"train.freeze=[input_block]", "write \"input_block.*\""},
        WrongValue{"train.groups=[{parameters: [input_block], lr: 1}]", "write \"input_block.*\""},
        WrongValue{"train.gradient_clip_val=1", "did you mean train.clip_norm?"},
        WrongValue{"train.ema_decay=1", "< 1"},
        WrongValue{"train.clip_grad_value=1", "did you mean train.clip_value?"},
        WrongValue{"train.label_smoothing=1", "< 1"}, WrongValue{"train.power=0", "> 0"},
        WrongValue{"train.schedule=onecycle", "did you mean one_cycle?"},
        WrongValue{"train.warmup_steps=-1", "from 0"}, WrongValue{"train.step_epochs=0", "from 1"},
        WrongValue{"train.step_factor=0", "> 0"}, WrongValue{"train.evaluate=x", "true or"},
        WrongValue{"train.target_accuracy=95", "to 1"}, WrongValue{"train.patience=-1", "from 0"},
        WrongValue{"train.monitor=accuracy", "did you mean test_accuracy?"},
        WrongValue{"train.monitor=val_loss", "did you mean test_loss?"},
        WrongValue{"train.schedule=OneCycleLR", "did you mean one_cycle?"},
        WrongValue{"train.schedule=cosine_annealing", "did you mean cosine?"},
        WrongValue{"train.schedule=CosineAnnealingLR", "did you mean cosine?"},
        WrongValue{"train.schedule=ReduceLROnPlateau", "did you mean plateau?"},
        WrongValue{"train.loss=CrossEntropyLoss", "did you mean cross_entropy?"},
        WrongValue{"train.freeze=[*]", "* begins an alias in YAML"},
        WrongValue{"checkpoint.every_epochs=-1", "from 0"},
        WrongValue{"checkpoint.keep_best=1", "true or"},
        WrongValue{"parallel.pipeline=0", "from 1"}, WrongValue{"parallel.data=0", "from 1"},
        WrongValue{"parallel.bucket_cap_mb=0", "> 0"},
        WrongValue{"parallel.aggregation=async", "did you mean asynchronous?"},
        WrongValue{"parallel.staleness=0", "from 1"}, WrongValue{"parallel.staleness=65", "to 64"},
        WrongValue{"parallel.staleness=2", "set parallel.aggregation to asynchronous"},
        WrongValue{"parallel.schedule=zb", "gpipe, 1f1b"},
        WrongValue{"parallel.schedule=eager", "did you mean eager_1f1b?"},
        WrongValue{"parallel.partition=[0]", "from 1"},
        WrongValue{"parallel.partition=automatic", "auto"},
        WrongValue{"parallel.actor_threads=-1", "from 0"},
        WrongValue{"parallel.intra_op_threads=0", "from 1"},
        WrongValue{"checkpoint.every_steps=-1", "from 0"},
        WrongValue{"checkpoint.keep=-1", "from 0"}, WrongValue{"log.every_steps=0", "from 1"},
        WrongValue{"restarts.max=-1", "from 0"}, WrongValue{"restarts.within=0", "from 1"}));
INSTANTIATE_TEST_SUITE_P(
    LossScale, WrongOption,
    testing::Values(WrongValue{"loss_scale.mode=dynamc", "did you mean dynamic?"},
                    WrongValue{"loss_scale.mode=128", "auto, none, dynamic, static"},
                    WrongValue{"loss_scale.init_scale=0", "write 1e-38 or more"},
                    WrongValue{"loss_scale.init_scale=-2", "write 1e-38 or more"},
                    WrongValue{"loss_scale.init_scale=nan", "number from 1e-38 to 1e+38"},
                    WrongValue{"loss_scale.init_scale=1e300", "write 1e+38 or less"},
                    WrongValue{"loss_scale.init_scale=3", "give a power of two, such as 2 or 4"},
                    WrongValue{"loss_scale.growth_factor=1", "write more than 1"},
                    WrongValue{"loss_scale.growth_factor=3", "such as 2 or 4"},
                    WrongValue{"loss_scale.backoff_factor=1", "write less than 1"},
                    WrongValue{"loss_scale.backoff_factor=0", "write 1e-38 or more"},
                    WrongValue{"loss_scale.backoff_factor=0.3", "such as 0.25 or 0.5"},
                    WrongValue{"loss_scale.growth_interval=0", "from 1"},
                    WrongValue{"loss_scale.min_scale=0", "write 1e-38 or more"},
                    WrongValue{"loss_scale.min_scale=131072", "raise loss_scale.init_scale"},
                    WrongValue{"loss_scale.hysteresis=0", "from 1"}));
INSTANTIATE_TEST_SUITE_P(
    Together, WrongOption,
    testing::Values(WrongValue{"train.batch_size=3", "4 micro-batches"},
                    WrongValue{"train.micro_batches=65", "raise train.batch_size to 65"},
                    WrongValue{"parallel.data=5", "raise train.micro_batches to 5"},
                    WrongValue{"data.limit=63", "no whole batch"},
                    WrongValue{"train.warmup_steps=938", "the run has 937 steps"},
                    WrongValue{"parallel.partition=[1, 2]", "parallel.pipeline is 1"},
                    WrongValue{"parallel.pipeline=13", "lower parallel.pipeline to 12"},
                    WrongValue{"parallel.partition=[11]", "add up to 12, such as [12], or"},
                    WrongValue{"model.widths=[16, 16]", "takes four"},
                    WrongValue{"model.in_channels=3", "leave model.in_channels out"},
                    WrongValue{"model.classes=9", "set model.classes to 10"},
                    WrongValue{"data.mean=[0.1, 0.2]", "2 numbers for 1 channel"},
                    WrongValue{"data.augment=[flip, flip]", "twice"},
                    WrongValue{"data.path=/no/such/folder", "-o /no/such/folder"},
                    WrongValue{"faults=[{actor: writer, micro_batch: 1}]", "one for each stage"},
                    WrongValue{"faults=[{actor: stage/0, micro_batch: 4}]", "write 0 to 3"},
                    WrongValue{"faults=[{actr: stage/0}]", "did you mean actor?"},
                    WrongValue{"parallel.partition=six", "write auto, or a list such as [4]"},
                    WrongValue{"faults=stage/0", "must be a list"}));

TEST(Options, BlamesTheOverrideNotTheLineOfTheFile) {
  try {
    static_cast<void>(
        parse_options("train: {batch_size: 64}", "o.yaml", {"train.micro_batches=100"}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), testing::StartsWith("override -r train.micro_batches=100: "));
    EXPECT_THAT(error.remedy(), HasSubstr("lower train.micro_batches to 64"));
  }
}

// 640 images of 28 x 28, as the header says.
class OptionsOfAFolder : public testing::Test {
 protected:
  OptionsOfAFolder() {
    std::ofstream images(folder_ / "train-images-idx3-ubyte", std::ios::binary);
    images << std::string("\0\0\x08\x03\0\0\x02\x80\0\0\0\x1c\0\0\0\x1c", 16)
           << std::string(std::size_t{640} * 28 * 28, '\0');
  }

  const test::TemporaryFolder folder_;
};

TEST_F(OptionsOfAFolder, AreHeldAgainstItsNumberOfSamples) {
  const std::string path = "data.path=" + folder_.path().string();
  EXPECT_EQ(refusal("", {path, "train.warmup_steps=9"}), "no error");
  EXPECT_THAT(refusal("", {path, "train.warmup_steps=10"}), HasSubstr("the run has 10 steps"));
  EXPECT_EQ(refusal("", {path, "train.batch_size=640"}), "no error");
  EXPECT_THAT(refusal("", {path, "train.batch_size=641"}), HasSubstr("640 training samples"));
}

TEST_F(OptionsOfAFolder, AreHeldAgainstTheSizeOfItsImages) {
  std::ofstream(folder_ / "train-images-idx3-ubyte", std::ios::binary)
      << std::string("\0\0\x08\x03\0\0\x02\x80\0\0\0\x10\0\0\0\x10", 16)
      << std::string(std::size_t{640} * 16 * 16, '\0');
  const std::string path = "data.path=" + folder_.path().string();
  for (const char* name : {"data.name=fashion_mnist", "data.name=mnist", "data.name=idx"}) {
    EXPECT_THAT(refusal("", {path, name}),
                testing::AllOf(HasSubstr("wide_resnet"), HasSubstr("16")));
    EXPECT_EQ(refusal("", {path, name, "model.name=mnist_cnn"}), "no error");
    EXPECT_EQ(refusal("", {path, name, "model.name=mlp"}), "no error");
  }
}

TEST_F(OptionsOfAFolder, AreHeldAgainstItsNumberOfClasses) {
  for (const char* part : {"train", "t10k"})
    std::ofstream(folder_ / (part + std::string("-labels-idx1-ubyte")), std::ios::binary)
        << std::string("\0\0\x08\x01\0\0\0\x02\0\x1e", 10);
  const std::string path = "data.path=" + folder_.path().string();
  EXPECT_THAT(refusal("", {path, "model.classes=10"}), HasSubstr("set model.classes to 31"));
  EXPECT_EQ(refusal("", {path, "model.classes=31"}), "no error");
  EXPECT_EQ(refusal("", {path}), "no error") << "auto";
}

TEST_F(OptionsOfAFolder, AreNotCheckedAgainstSamplesThatCannotBeRead) {
  const test::TemporaryFolder empty;
  const std::string path = "data.path=" + empty.path().string();
  const Options options =
      parse_options("parallel: {pipeline: 99}", "o.yaml", {path, "train.batch_size=100000"});
  ASSERT_EQ(options.warnings.size(), 1u);
  EXPECT_THAT(options.warnings[0],
              testing::AllOf(HasSubstr("fashion_mnist cannot be read on this host"),
                             HasSubstr(empty.path().string() +
                                       " has neither "
                                       "train-images-idx3-ubyte nor the same with .gz")));
  EXPECT_FALSE(block_count(options));
}

TEST(Options, HaveAnOutputForEachClassUnlessTheyChooseOthers) {
  const auto classes = [](const std::vector<std::string>& overrides) {
    return option_text(parse_options("data: {name: synthetic, classes: 2}", "o.yaml", overrides),
                       "model.classes");
  };
  EXPECT_EQ(classes({}), "2");
  EXPECT_EQ(classes({"model.classes=auto", "data.classes=7"}), "7");
  EXPECT_EQ(classes({"model.classes=10"}), "10");
  EXPECT_EQ(classes({"train.loss=bce"}), "1");
  EXPECT_EQ(option_text(Options(), "model.classes"), "auto");
}

TEST(Options, TellThatNoEvaluationsAreCompared) {
  const auto warned = [](const std::vector<std::string>& overrides) {
    std::string all;
    for (const std::string& one :
         parse_options("data: {name: synthetic}", "o.yaml", overrides).warnings)
      all += one + "\n";
    return all;
  };
  EXPECT_THAT(warned({"train.min_delta=0.1"}),
              HasSubstr("override -r train.min_delta=0.1: train.min_delta has no effect"));
  EXPECT_THAT(warned({"train.monitor=test_accuracy"}), HasSubstr("train.monitor has no effect"));
  EXPECT_EQ(warned({"train.min_delta=0.1", "train.patience=2"}), "");
}

TEST(Options, RefuseNesterovWithoutMomentum) {
  EXPECT_THAT(refusal("train: {nesterov: true, momentum: 0}"), HasSubstr("o.yaml:1:19: "));
}

TEST(Options, RefuseToCompareEvaluationsThatAreNotMade) {
  for (const char* setting : {"target_accuracy: 0.9", "patience: 2"})
    EXPECT_THAT(refusal(fmt::format("train: {{evaluate: false, {}}}", setting)),
                HasSubstr("set train.evaluate to true"));
  EXPECT_THAT(refusal("{train: {evaluate: false}, checkpoint: {keep_best: true}}"),
              HasSubstr("set train.evaluate to true"));
}

TEST(Options, KnowTheNamesThatOtherScriptsUse) {
  const std::pair<const char*, const char*> names[] = {
      {"batch-size", "train.batch_size"},
      {"base_lr", "train.lr"},
      {"num_workers", "data.workers"},
      {"max_epochs", "train.epochs"},
      {"every_n_epochs", "checkpoint.every_epochs"},
      {"base-lr", "train.lr"},
      {"num-epochs", "train.epochs"},
      {"flush_logs_every_n_steps", "log.every_steps"},
      {"data_path", "data.path"},
      {"architecture.training.num_epochs", "train.epochs"},
      {"architecture.training.checkpoint_interval", "checkpoint.every_epochs"},
      {"validation_set", "data.test_fraction"},
      {"train_batch_size", "train.batch_size"},
      {"arch", "model.name"},
      {"opt", "train.optimizer"},
      {"model-ema", "train.ema_decay"},
      {"random-erase", "data.augment"},
      {"auto-augment", "data.augment"},
      {"print-freq", "log.every_steps"},
      {"log_every_n_steps", "log.every_steps"},
      {"seed_everything", "seed"},
      {"early_stopping", "train.patience"},
      {"dist_backend", "parallel.transport"},
      {"dist-backend", "parallel.transport"},
      {"gpu", "device"},
      {"data_root", "data.path"},
      {"num_train_epochs", "train.epochs"},
      {"clip_grad", "train.clip_norm"},
      {"adam_beta1", "train.betas"},
      {"opt-betas", "train.betas"},
      {"val-resize-size", "data.resize"},
      {"train-crop-size", "data.image_size"},
      {"lr-step-size", "train.step_epochs"},
      {"lr-gamma", "train.step_factor"},
      {"save_steps", "checkpoint.every_steps"},
      {"dataloader_num_workers", "data.workers"},
      {"data.on_gpu", "data.resident"},
      {"preload-to-gpu", "data.resident"},
      {"data.cache", "data.resident"},
      {"lr-scheduler", "train.schedule"},
      {"save_best", "checkpoint.keep_best"},
      {"trainer.gradient_clip_val", "train.clip_norm"},
      {"data.transform", "data.augment"},
      {"train.loss_scale", "loss_scale.mode"},
      {"grad_scaler", "loss_scale.mode"},
      {"init_scale", "loss_scale.init_scale"},
      {"growth_factor", "loss_scale.growth_factor"},
      {"loss_scale_window", "loss_scale.growth_interval"},
      {"min_loss_scale", "loss_scale.min_scale"},
      {"hysteresis", "loss_scale.hysteresis"}};
  for (const auto& [theirs, ours] : names)
    EXPECT_THAT(refusal("", {fmt::format("{}=3", theirs)}),
                HasSubstr(fmt::format("did you mean {}?", ours)))
        << theirs;
}

TEST(Options, ExplainNamesThatHaveNoCounterpart) {
  EXPECT_THAT(refusal("", {"accumulate_grad_batches=4"}),
              HasSubstr("train.micro_batches divides train.batch_size"));
  EXPECT_THAT(refusal("", {"resume=true"}), HasSubstr("to resume, add --restart auto"));
  EXPECT_THAT(refusal("", {"save_top_k=3"}), HasSubstr("checkpoint.keep_best also the best"));
  EXPECT_THAT(refusal("", {"num_nodes=2"}), HasSubstr("launch --nnodes"));
  EXPECT_THAT(refusal("", {"gradient_clip_algorithm=norm"}), HasSubstr("train.clip_norm clips by"));
  EXPECT_THAT(refusal("", {"warmup_epochs=5"}), HasSubstr("train.warmup_steps counts steps"));
  EXPECT_THAT(refusal("", {"mode=min"}), HasSubstr("train.monitor implies it"));
  EXPECT_THAT(refusal("", {"accelerator=gpu"}), HasSubstr("did you mean device?"));
  EXPECT_THAT(refusal("", {"benchmark=true"}), HasSubstr("no algorithm is chosen by its time"));
  EXPECT_THAT(refusal("", {"val_check_interval=0.5"}), HasSubstr("follow each epoch"));
  EXPECT_THAT(refusal("", {"check_val_every_n_epoch=2"}), HasSubstr("follow each epoch"));
  EXPECT_THAT(refusal("", {"limit_train_batches=10"}), HasSubstr("count samples"));
  EXPECT_THAT(refusal("", {"prefetch_factor=2"}), HasSubstr("data.workers prepare"));
  EXPECT_THAT(refusal("", {"norm-weight-decay=0"}), HasSubstr("train.groups sets it"));
  EXPECT_THAT(refusal("", {"amsgrad=true"}), HasSubstr("no AMSGrad"));
  EXPECT_THAT(refusal("", {"milestones=[30, 60]"}), HasSubstr("train.step_epochs"));
  EXPECT_THAT(refusal("", {"eta_min=0"}), HasSubstr("cosine ends near 0"));
  EXPECT_THAT(refusal("", {"no-cuda=true"}), HasSubstr("set device to cpu"));
  EXPECT_THAT(refusal("", {"swa=true"}), HasSubstr("there is no SWA"));
  EXPECT_THAT(refusal("", {"load_best_model_at_end=true"}), HasSubstr("with --best"));
  EXPECT_THAT(refusal("", {"test-only=true"}), HasSubstr("the verb eval"));
  EXPECT_THAT(refusal("", {"evaluation_strategy=epoch"}), HasSubstr("follow each epoch"));
  for (const char* key : {"torch_compile", "persistent_workers", "cache-dataset"})
    EXPECT_THAT(refusal("", {fmt::format("{}=true", key)}), HasSubstr("leave it out"));
  for (const char* key : {"local_rank", "dist-url"})
    EXPECT_THAT(refusal("", {fmt::format("{}=0", key)}), HasSubstr("launch --nproc-per-node N"));
  EXPECT_THAT(refusal("", {"lr-min=0"}), HasSubstr("cosine ends near 0"));
  EXPECT_THAT(refusal("", {"lr-warmup-method=linear"}), HasSubstr("the warm-up is linear"));
  EXPECT_THAT(refusal("", {"drop_path=0.1"}), HasSubstr("a part of the model"));
  EXPECT_THAT(refusal("", {"max_lr=1"}), HasSubstr("the highest rate of the schedule one_cycle"));
  EXPECT_THAT(refusal("", {"logger=true"}),
              HasSubstr("train.csv and train.log are always written"));
  EXPECT_THAT(refusal("", {"enable_progress_bar=true"}), HasSubstr("always has a progress bar"));
  EXPECT_THAT(refusal("", {"ra-sampler=true"}), HasSubstr("there is no such option"));
  EXPECT_THAT(refusal("", {"lr-warmup-epochs=1"}), HasSubstr("train.warmup_steps counts"));
  for (const char* key : {"pct_start", "div-factor", "final_div_factor"})
    EXPECT_THAT(refusal("", {fmt::format("{}=1", key)}),
                HasSubstr("one_cycle rises from train.lr / 25 for 30 % of the steps"));
  EXPECT_THAT(refusal("", {"cycle_momentum=true"}), HasSubstr("leaves the momentum as it is"));
  for (const char* word : {"gpu", "GPU"})
    EXPECT_THAT(refusal("", {fmt::format("device={}", word)}),
                AllOf(HasSubstr("write cuda for an NVIDIA GPU"), Not(HasSubstr("mean cpu"))));
  EXPECT_THAT(refusal("", {"device=mps"}), HasSubstr("there is no MPS: write cpu"));
  EXPECT_THAT(refusal("", {"train.optimizer=rmsprop"}), HasSubstr("an optimizer of your own"));
  EXPECT_THAT(refusal("", {"data.normalize=true"}), HasSubstr("data.mean and data.std"));
  EXPECT_THAT(refusal("", {"random_crop=32"}), HasSubstr("write data.augment=[crop]"));
  EXPECT_THAT(refusal("", {"train.eval_interval=5"}), HasSubstr("evaluations follow each epoch"));
  EXPECT_THAT(refusal("", {"profiler=simple"}), HasSubstr("trace=true writes trace.json"));
  EXPECT_THAT(refusal("", {"fsdp=true"}), HasSubstr("there is no FSDP"));
  for (const char* key : {"bias-weight-decay", "no_decay", "param_groups"})
    EXPECT_THAT(refusal("", {fmt::format("{}=0", key)}), HasSubstr("train.groups sets it"));
  EXPECT_THAT(refusal("", {"zero_stage=1"}), HasSubstr("there is no ZeRO"));
  EXPECT_THAT(refusal("", {"start-epoch=3"}), HasSubstr("to resume, add --restart auto"));
  EXPECT_THAT(refusal("", {"min_epochs=3"}), HasSubstr("there is no such option"));
  EXPECT_THAT(refusal("", {"sync-bn=true"}), HasSubstr("averages over one micro-batch"));
  EXPECT_THAT(refusal("", {"zero_optimization.stage=2"}), HasSubstr("there is no ZeRO"));
  EXPECT_THAT(refusal("", {"train_micro_batch_size_per_gpu=4"}), HasSubstr("of a device"));
  EXPECT_THAT(refusal("", {"initial_scale_power=16"}), HasSubstr("65536 for the power 16"));
  EXPECT_THAT(refusal("", {"consecutive_hysteresis=true"}), HasSubstr("in a row or not"));
  EXPECT_THAT(refusal("", {"loss_scale=128"}), HasSubstr("loss_scale: {mode: auto}"));
  EXPECT_THAT(refusal("", {"sync_batchnorm=true"}), HasSubstr("averages over one micro-batch"));
  for (const char* key :
       {"devices", "strategy", "world_size", "trainer.devices", "nproc_per_node", "nproc-per-node"})
    EXPECT_THAT(refusal("", {fmt::format("{}=2", key)}),
                HasSubstr("launch --nproc-per-node N -- train FILE -r parallel.data=N"));
  for (const char* key : {"gpus", "num_gpus"})
    EXPECT_THAT(refusal("", {fmt::format("{}=2", key)}), HasSubstr("device: cuda uses one GPU"));
  EXPECT_THAT(refusal("", {"channels_last=true"}), HasSubstr("the precision chooses the layout"));
  EXPECT_THAT(refusal("", {"save_last=true"}), HasSubstr("always writes a last checkpoint"));
  EXPECT_THAT(refusal("", {"per_device_train_batch_size=8"}), HasSubstr("over all replicas"));
  EXPECT_THAT(refusal("", {"T_max=8"}), HasSubstr("cosine spans train.epochs"));
  EXPECT_THAT(refusal("", {"warmup_ratio=0.1"}), HasSubstr("ratio × steps of the run"));
  EXPECT_THAT(refusal("", {"fast_dev_run=true"}), HasSubstr("train.steps=1"));
  EXPECT_THAT(refusal("", {"overfit_batches=8"}), HasSubstr("batches × train.batch_size"));
  EXPECT_THAT(refusal("", {"default_root_dir=a"}), HasSubstr("-o FOLDER"));
  for (const char* key : {"pin_memory", "compile", "trainer.compile"})
    EXPECT_THAT(refusal("", {fmt::format("{}=true", key)}), HasSubstr("leave it out"));
  EXPECT_THAT(refusal("", {"callbacks=[a]"}), HasSubstr("train.patience stops early"));
}

TEST(Options, KnowTheValuesThatOtherScriptsUse) {
  const std::tuple<const char*, const char*, const char*> values[] = {
      {"train.loss", "ce", "did you mean cross_entropy?"},
      {"train.loss", "nll", "did you mean cross_entropy?"},
      {"train.loss", "NLLLoss", "did you mean cross_entropy?"},
      {"train.loss", "crossentropy", "did you mean cross_entropy?"},
      {"train.loss", "l2", "did you mean mse?"},
      {"train.loss", "mean_squared_error", "did you mean mse?"},
      {"train.loss", "MSELoss", "did you mean mse?"},
      {"train.loss", "binary_cross_entropy", "did you mean bce?"},
      {"train.loss", "BCEWithLogitsLoss", "did you mean bce?"},
      {"train.schedule", "linear", "polynomial, whose train.power 1 makes it linear"},
      {"train.schedule", "LinearLR", "polynomial, whose train.power 1 makes it linear"},
      {"train.monitor", "val_acc", "did you mean test_accuracy?"},
      {"train.monitor", "val_loss", "did you mean test_loss?"},
      {"train.monitor", "test_acc", "did you mean test_accuracy?"},
      {"data.augment", "[hflip]", "did you mean flip?"},
      {"data.augment", "[vflip]", "did you mean vertical_flip?"},
      {"data.augment", "[Normalize]", "set data.mean and data.std"},
      {"data.augment", "[AugMix]", "there is no AugMix"},
      {"train.optimizer", "rmsprop", "one of sgd, adam"}};
  for (const auto& [key, value, remedy] : values)
    EXPECT_THAT(refusal("", {fmt::format("{}={}", key, value)}), HasSubstr(remedy));
}

TEST(Options, AreRefusedWhereTheModelCannotHaveThem) {
  EXPECT_THAT(refusal("data: {name: synthetic, shape: [1, 8, 8]}"), HasSubstr("o.yaml:1:32: "));
  std::string widths = "1";
  for (int i = 0; i < 100; ++i) widths += ", 1";
  EXPECT_THAT(refusal("model: {name: mlp, widths: [" + widths + "]}"), HasSubstr("at most 64"));
}

TEST(Options, TellThatALossScaleHasNoEffect) {
  const auto warned = [](const std::vector<std::string>& overrides) {
    return parse_options("data: {name: synthetic}", "o.yaml", overrides).warnings;
  };
  using testing::ElementsAre;
  EXPECT_THAT(warned({"loss_scale.init_scale=1024"}),
              ElementsAre("override -r loss_scale.init_scale=1024: loss_scale.init_scale has no "
                          "effect with precision 32-true, only with loss_scale.mode dynamic or "
                          "static"));
  EXPECT_THAT(warned({"loss_scale.mode=none", "loss_scale.init_scale=1024"}),
              ElementsAre(HasSubstr("loss_scale.init_scale has no effect with loss_scale.mode "
                                    "none, only with auto, dynamic, static")));
  EXPECT_THAT(warned({"loss_scale.mode=static", "loss_scale.growth_interval=9"}),
              ElementsAre(HasSubstr("loss_scale.growth_interval has no effect")));
  EXPECT_THAT(warned({"loss_scale.mode=static", "loss_scale.init_scale=128"}), testing::IsEmpty());
  EXPECT_THAT(warned({"loss_scale.mode=dynamic", "loss_scale.hysteresis=2"}), testing::IsEmpty());
}

TEST(Options, RefuseALossScaleWithAsynchronousAggregation) {
  EXPECT_THAT(refusal("parallel: {aggregation: asynchronous}", {"loss_scale.mode=dynamic"}),
              testing::AllOf(HasSubstr("override -r loss_scale.mode=dynamic: loss scaling needs"),
                             HasSubstr("set parallel.aggregation to synchronous")));
  EXPECT_EQ(refusal("parallel: {aggregation: asynchronous}"), "no error");
}

TEST(Options, TakePrecisionsByLightningsAndByTheirFormerNames) {
  const auto written = [](const std::string& name) {
    return option_text(parse_options("precision: " + name, "o.yaml"), "precision");
  };
  EXPECT_EQ(written("32-true"), "32-true");
  EXPECT_EQ(written("64-true"), "64-true");
  EXPECT_EQ(written("f32"), "32-true");
  EXPECT_EQ(written("f64"), "64-true");
  EXPECT_EQ(written("bf16-mixed"), "bf16-mixed");
  const Options exact = parse_options("precision: f64", "o.yaml");
  EXPECT_EQ(exact.pipeline.dtype, DType::f64);
  EXPECT_EQ(exact.pipeline.stream.products, DType::f32);
  const Options mixed = parse_options("precision: bf16-mixed", "o.yaml");
  EXPECT_EQ(mixed.pipeline.dtype, DType::f32);
  EXPECT_EQ(mixed.pipeline.stream.products, DType::bf16);
  EXPECT_EQ(written("16-mixed"), "16-mixed");
  EXPECT_EQ(parse_options("precision: 16-mixed", "o.yaml").pipeline.stream.products, DType::f16);
}

TEST(Options, SayWhatToWriteForOtherProgramsPrecisions) {
  for (const auto& [theirs, remedy] :
       {std::pair{"bf16", "did you mean bf16-mixed?"},
        {"bf16-true", "did you mean bf16-mixed?"},
        {"16-true", "did you mean 16-mixed?"},
        {"fp16", "did you mean 16-mixed?"},
        {"fp16-mixed", "did you mean 16-mixed?"},
        {"mixed", "write bf16-mixed or 16-mixed"},
        {"tf32", "write 32-true, and tf32 as matmul_precision and conv_precision"},
        {"high", "write 32-true, and tf32 as matmul_precision and conv_precision"},
        {"16", "did you mean 16-mixed?"},
        {"32", "did you mean 32-true?"},
        {"64", "did you mean 64-true?"},
        {"transformer-engine", "no kernels for it; write bf16-mixed"},
        {"float32", "did you mean 32-true?"},
        {"double", "did you mean 64-true?"},
        {"bf16_mixed", "did you mean bf16-mixed?"}}) {
    const std::string message = refusal(fmt::format("precision: {}", theirs));
    EXPECT_THAT(message, AllOf(HasSubstr(fmt::format("o.yaml:1:12: precision is {}", theirs)),
                               HasSubstr("one of 32-true, 64-true, bf16-mixed, 16-mixed"),
                               HasSubstr(remedy)));
  }
  for (const char* key : {"fp16", "bf16", "mixed_precision"})
    EXPECT_THAT(refusal(fmt::format("{}: true", key)), HasSubstr("did you mean precision?"));
  EXPECT_THAT(refusal("precision: [32-true]"), HasSubstr("precision is a list"));
  EXPECT_THAT(refusal("precision:"), HasSubstr("precision is empty"));
}

TEST(Options, SayThatConvolutionsInSixteenBitsHaveNothingToRoundToTf32) {
  const auto warnings = [](const std::string& text) {
    return parse_options(text, "o.yaml").warnings;
  };
  const auto told = HasSubstr("o.yaml:2:17: conv_precision has no effect with precision 16-mixed");
  EXPECT_THAT(warnings("precision: 16-mixed\nconv_precision: tf32"), Contains(told));
  EXPECT_THAT(warnings("precision: 32-true\nconv_precision: tf32"),
              Not(Contains(HasSubstr("conv_precision"))));
}

TEST(Options, AllowTf32ForMatricesAndForConvolutions) {
  const Options none = parse_options("precision: 32-true", "o.yaml");
  EXPECT_FALSE(none.pipeline.stream.matmul_tf32 || none.pipeline.stream.conv_tf32);
  const Options matrices = parse_options("matmul_precision: tf32", "o.yaml");
  EXPECT_TRUE(matrices.pipeline.stream.matmul_tf32);
  EXPECT_FALSE(matrices.pipeline.stream.conv_tf32);
  const Options images = parse_options("matmul_precision: ieee\nconv_precision: tf32", "o.yaml");
  EXPECT_FALSE(images.pipeline.stream.matmul_tf32);
  EXPECT_TRUE(images.pipeline.stream.conv_tf32);
  EXPECT_EQ(option_text(images, "conv_precision"), "tf32");
  EXPECT_EQ(option_text(images, "matmul_precision"), "ieee");
}

TEST(Options, SayWhatToWriteForOtherProgramsTf32) {
  EXPECT_THAT(refusal("matmul_precision: high"),
              AllOf(HasSubstr("o.yaml:1:19: matmul_precision is high"),
                    HasSubstr("one of ieee, tf32"), HasSubstr("did you mean tf32?")));
  EXPECT_THAT(refusal("matmul_precision: medium"), HasSubstr("bf16-mixed"));
  EXPECT_THAT(refusal("matmul_precision: highest"), HasSubstr("did you mean ieee?"));
  EXPECT_THAT(refusal("conv_precision: true"), HasSubstr("did you mean tf32?"));
  EXPECT_THAT(refusal("float32_matmul_precision: high"),
              HasSubstr("did you mean matmul_precision?"));
  EXPECT_THAT(refusal("cudnn_allow_tf32: true"), HasSubstr("did you mean conv_precision?"));
  EXPECT_THAT(refusal("allow_tf32: true"),
              HasSubstr("set matmul_precision and conv_precision to tf32"));
}

TEST(Options, RefuseWhatOnlyGpusComputeOnTheCpu) {
  EXPECT_THAT(refusal("device: cpu\nprecision: 16-mixed"),
              AllOf(HasSubstr("o.yaml:2:12: precision is 16-mixed, but device is cpu"),
                    HasSubstr("set precision to 32-true, or device to cuda")));
  for (const char* device : {"auto", "cuda"})
    EXPECT_EQ(parse_options(fmt::format("{{device: {}, precision: 16-mixed}}", device), "o.yaml")
                  .pipeline.stream.products,
              DType::f16);
}

TEST(Options, SayWhatToWriteForOtherNamesOfDevices) {
  for (const auto& [device, remedy] :
       {std::pair{"cuda:1", "the first GPU that CUDA_VISIBLE_DEVICES names"},
        {"nvidia", "write cuda"},
        {"h100", "write cuda; the option --device of plan"},
        {"rocm", "no kernels for AMD's GPUs"}})
    EXPECT_THAT(refusal(fmt::format("device: {}", device)), HasSubstr(remedy)) << device;
}

TEST(Options, AreDeterministicUnlessAskedOtherwise) {
  EXPECT_TRUE(parse_options("seed: 1", "o.yaml").pipeline.stream.deterministic);
  EXPECT_FALSE(parse_options("deterministic: false", "o.yaml").pipeline.stream.deterministic);
  EXPECT_THAT(refusal("deterministic: warn"), HasSubstr("true or false"));
  for (const char* other : {"use_deterministic_algorithms", "cudnn_deterministic"})
    EXPECT_THAT(refusal(fmt::format("{}: true", other)), HasSubstr("did you mean deterministic?"));
}

TEST(Options, TakeCudaGraphsWithSynchronousAggregationOnly) {
  EXPECT_FALSE(parse_options("seed: 1", "o.yaml").pipeline.cuda_graphs);
  EXPECT_TRUE(parse_options("cuda_graphs: true", "o.yaml").pipeline.cuda_graphs);
  EXPECT_THAT(refusal("enable_cuda_graph: true"), HasSubstr("did you mean cuda_graphs?"));
  EXPECT_THAT(
      refusal("cuda_graphs: true\nparallel: {aggregation: asynchronous}"),
      AllOf(HasSubstr("o.yaml:1:14: cuda_graphs is true, but parallel.aggregation is asynchronous"),
            HasSubstr("set cuda_graphs to false")));
}

TEST(Options, RefuseResidentImagesWhereTheGpuDoesNotPrepareThem) {
  const auto with = [](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = {"data.resident=true"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    return refusal("model: {name: mlp}\ndata: {name: synthetic}", overrides);
  };
  EXPECT_EQ(with({}), "no error") << "with device auto the CPU may compute";
  EXPECT_EQ(with({"device=cuda", "data.augment=[crop,flip,vertical_flip]"}), "no error");
  EXPECT_EQ(with({"device=cpu"}), "no error") << "there it has no effect";
  for (const char* augment : {"random_erasing", "random_resized_crop", "color_jitter"}) {
    std::vector<std::string> more = {fmt::format("data.augment=[{}]", augment)};
    if (augment == std::string_view("color_jitter")) more.emplace_back("data.color_jitter=[1,1,1]");
    EXPECT_THAT(with(more),
                AllOf(HasSubstr("data.resident is true, but data.augment has more than flip"),
                      HasSubstr("set data.resident to false")))
        << augment;
  }
  EXPECT_THAT(with({"data.mixup_alpha=0.2"}), HasSubstr("true, but data.mixup_alpha is 0.2"));
  EXPECT_THAT(with({"data.cutmix_alpha=1"}), HasSubstr("true, but data.cutmix_alpha is 1"));
  const test::TemporaryFolder folder;
  test::write_text(folder / "t.csv", "a,b\n0.5,x\n0.25,y\n");
  EXPECT_THAT(with({"data.name=csv", fmt::format("data.path={}", (folder / "t.csv").string()),
                    "train.batch_size=2", "train.micro_batches=1", "train.evaluate=false"}),
              HasSubstr("data.resident is true, but the samples of csv are f32"));
}

TEST(Options, RefuseTf32InDoublePrecision) {
  for (const char* key : {"matmul_precision", "conv_precision"})
    EXPECT_THAT(refusal(fmt::format("precision: 64-true\n{}: tf32", key)),
                AllOf(HasSubstr("o.yaml:2:"), HasSubstr(fmt::format("{} is tf32", key)),
                      HasSubstr("precision is 64-true"), HasSubstr("32-true")));
}

TEST(Options, RefuseWinogradInDoublePrecision) {
  EXPECT_THAT(refusal("precision: 64-true\nconvolution: winograd"), HasSubstr("o.yaml:2:14: "));
}

TEST(Options, FreezeParametersThatAGroupHoldsAsWell) {
  const Options options = parse_options(
      "model: {name: mlp, widths: [8]}\ndata: {name: synthetic, shape: [1, 4, 4]}\n"
      "train: {freeze: ['layers.0.*'], groups: [{parameters: ['*.bias'], lr: 0.5}]}\n",
      "o.yaml");
  const Optimizer optimizer = optimizer_of(options);
  EXPECT_TRUE(optimizer.freezes("layers.0.bias") && optimizer.freezes("layers.0.weight"));
  EXPECT_EQ(optimizer.group_of("layers.1.bias")->lr, 0.5);
}

TEST(Options, RefuseMoreStepsThanCanBeCounted) {
  const std::string samples = std::string("1000000000000000");
  EXPECT_THAT(refusal("data: {name: synthetic, count: " + samples +
                      "}\ntrain: {batch_size: 4, "
                      "micro_batches: 1, epochs: 1000000}"),
              HasSubstr("makes 250000000000000000000 steps; at most 4000000000 are possible"));
}

TEST(Options, TellTheModelItsSampleSize) {
  const Options options =
      parse_options("data: {name: synthetic, shape: [3, 32, 40]}\nconvolution: direct", "o.yaml");
  EXPECT_EQ(options.samples.value().samples.shape, (Shape{3, 32, 40}));
  EXPECT_EQ(option_text(options, "convolution"), "direct");
}

}  // namespace
}  // namespace troupe
