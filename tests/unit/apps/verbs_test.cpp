// eval, export and inspect on a small checkpoint, through the command's own entry.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "actors/data/dataset.h"
#include "actors/early_stopping.h"
#include "actors/options_text.h"
#include "apps/files/best_checkpoint.h"
#include "apps/options/load_options.h"
#include "apps/options/options.h"
#include "apps/options/options_table.h"
#include "apps/output/csv.h"
#include "apps/output/folder.h"
#include "apps/train/training.h"
#include "ops/nn/network.h"
#include "runtime/file/checkpoint.h"
#include "runtime/file/checkpoint_folder.h"
#include "runtime/file/safetensors.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr std::int64_t favourite = 3;

/// The checkpoint of a perceptron that answers `favourite` to everything.
class Verbs : public testing::Test {
 protected:
  Verbs() {
    options_ = parse_options(
        "model: {name: mlp, widths: [8]}\n"
        "data: {name: synthetic, shape: [1, 4, 4], count: 600}\n",
        "o.yaml");
    Model model = options_.model.chosen().make(options_.samples.value().samples);
    const std::size_t blocks = model.blocks.size();
    const Network network(std::move(model), 0, blocks, DType::f32, Stream{});
    const StatePtr state = initial_state(network.spec(), DType::f32, 1);
    auto tensors = named_tensors(network.spec(), *state, true);
    for (auto& [name, tensor] : tensors) {
      if (tensor.dtype() != DType::f32) continue;
      tensor = Tensor::zeros(tensor.shape());
      if (name.ends_with("bias") && tensor.element_count() == 10)
        tensor.data<float>()[favourite] = 1;
    }
    tensors.push_back({"optimizer.momentum.x", Tensor::zeros({2})});
    Manifest manifest;
    manifest.step = 7;
    manifest.generation = 3;
    manifest.position = R"({"step": 7, "epoch": 1, "step_of_epoch": 3, "seed": 1})";
    manifest.run["intra_op_threads"] = "2";
    manifest.options = resolved_yaml(options_);
    checkpoint_ = write_checkpoint(root_ / "checkpoints", manifest, {{0, tensors}}).value();
  }

  const test::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path();
  fs::path checkpoint_;
  Options options_;
};

TEST_F(Verbs, EvalCountsEachTestSampleOnce) {
  const Dataset data = open_dataset(options_.dataset.chosen(), dataset_options(options_));
  const auto labels = data.stored(Split::test)->targets;
  const auto expected = std::count(labels.elements<std::int64_t>().begin(),
                                   labels.elements<std::int64_t>().end(), favourite);
  const Ran ran = run_troupe({"eval", root_.string()});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr(fmt::format("({}/{})\n", expected, data.count(Split::test))));
  EXPECT_GT(expected, 0);
  EXPECT_LT(expected, data.count(Split::test));
}

TEST_F(Verbs, EvalTakesFewerTrainingSamplesThanABatch) {
  const Ran ran = run_troupe({"eval", root_.string(), "-r", "data.limit=10"});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_EQ(ran.out, run_troupe({"eval", root_.string()}).out);
}

TEST_F(Verbs, EvalRefusesAnOptionsFileAsTrainDoes) {
  std::ofstream(root_ / "o.yaml") << "data: synthetic\nmodel: {name: mlp, widths: [8]}\n";
  const Ran ran = run_troupe({"eval", root_.string(), "--options", (root_ / "o.yaml").string()});
  EXPECT_EQ(ran.code, exit_usage) << ran.out;
  EXPECT_THAT(ran.error, HasSubstr("data must be a map of keys to values"));
}

TEST_F(Verbs, EvalOfARunWhoseDataHasMovedNamesTheOverride) {
  const std::string table = (root_ / "t.csv").string();
  std::ofstream(table) << "a,b,y\n1,2,0.5\n3,4,1.5\n5,6,2.5\n7,8,3.5\n";
  std::ofstream(root_ / "csv.yaml") << "model: {name: mlp, widths: [2]}\n"
                                       "data: {name: csv, test_fraction: 0.5}\n"
                                       "train: {loss: mse, batch_size: 2, micro_batches: 1}\n"
                                       "parallel: {pipeline: 1}\n";
  const std::string out = (root_ / "out").string();
  ASSERT_EQ(
      run_troupe({"train", (root_ / "csv.yaml").string(), "-o", out, "-r", "data.path=" + table})
          .code,
      exit_done);
  fs::rename(table, root_ / "moved.csv");
  EXPECT_THAT(run_troupe({"eval", out}).error,
              testing::AllOf(HasSubstr("which does not exist"), HasSubstr("with -r KEY=VALUE")));
  const Ran moved = run_troupe({"eval", out, "-r", "data.path=" + (root_ / "moved.csv").string()});
  EXPECT_EQ(moved.code, exit_done) << moved.error;
}

TEST_F(Verbs, TrainSaysAtTheStartWhatEndsItEarlyIfItCan) {
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  int runs = 0;
  const auto begins = [&](const char* patience, const char* other) {
    const std::string out = (root_ / fmt::format("out{}", ++runs)).string();
    const Ran ran = run_troupe({"train", (root_ / "o.yaml").string(), "-o", out, "-r",
                                "train.epochs=3", "-r", patience, "-r", other});
    EXPECT_THAT(ran.out, HasSubstr("output in " + out)) << ran.error;
    return ran.out;
  };
  EXPECT_THAT(begins("train.patience=1", "train.min_delta=0.5"),
              HasSubstr("ends early after an evaluation without a better test_loss by more than "
                        "0.5\n"));
  EXPECT_THAT(begins("train.patience=2", "train.min_delta=0"), Not(HasSubstr("ends early")));
  EXPECT_THAT(
      begins("train.patience=2", "train.target_accuracy=1"),
      HasSubstr("ends early after 2 evaluations in a row with a test accuracy of 1 or more"));
  EXPECT_THAT(begins("train.patience=3", "train.target_accuracy=1"), Not(HasSubstr("ends early")))
      << "the third is the last";
}

TEST_F(Verbs, TrainSaysHowToResumeIfAskedByTheFlagOfAnotherProgram) {
  for (const char* flag : {"--resume", "--resume_from_checkpoint=x", "--ckpt-path"}) {
    const Ran ran = run_troupe({"train", "o.yaml", flag});
    EXPECT_EQ(ran.code, exit_usage) << flag;
    EXPECT_THAT(ran.error, HasSubstr("to resume, add --restart auto")) << flag;
  }
  EXPECT_THAT(run_troupe({"eval", "run", "--resume"}).error, Not(HasSubstr("--restart")));
  EXPECT_THAT(run_troupe({"eval", "run", "--output-dir", "x"}).error, Not(HasSubstr("-o FOLDER")));
}

TEST_F(Verbs, EvalOfAProgramsCheckpointNormalisesAsTheProgramDid) {
  const std::string program = options_text(
      options_.model.chosen(), open_dataset(options_.dataset.chosen(), dataset_options(options_)));
  Manifest manifest;
  manifest.step = 8;
  manifest.options = program;
  write_checkpoint(root_ / "checkpoints", manifest,
                   {{0, load_tensors(open_checkpoint(checkpoint_))}})
      .value();
  const Ran ran = run_troupe({"eval", root_.string()});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr("normalised with mean 0, std 1\n"));
  EXPECT_THAT(run_troupe({"eval", checkpoint_.string()}).out,
              HasSubstr("normalised with mean 0.286, std 0.353\n"));
}

TEST_F(Verbs, ExportedWeightsHaveTheCheckpointsDigestAndAccuracy) {
  const std::string file = (root_ / "w.safetensors").string();
  EXPECT_EQ(run_troupe({"export", root_.string(), "-o", file}).code, exit_done);
  const Ran digest = run_troupe({"inspect", "--digest", root_.string()});
  EXPECT_THAT(digest.out, testing::MatchesRegex("[0-9a-f]{64}\n"));
  EXPECT_EQ(run_troupe({"inspect", "--digest", file}).out, digest.out);
  EXPECT_THAT(run_troupe({"inspect", file}).out, testing::Not(HasSubstr("optimizer")));

  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  const Ran from_file = run_troupe({"eval", file, "--options", (root_ / "o.yaml").string()});
  const Ran from_checkpoint = run_troupe({"eval", checkpoint_.string()});
  EXPECT_EQ(from_file.code, exit_done) << from_file.error;
  EXPECT_EQ(from_file.out.substr(from_file.out.find('\n')),
            from_checkpoint.out.substr(from_checkpoint.out.find('\n')));
}

TEST_F(Verbs, WeightsOfAWrappedModuleLoadWithoutTheWrappersPrefix) {
  const std::string file = (root_ / "w.safetensors").string();
  ASSERT_EQ(run_troupe({"export", root_.string(), "-o", file}).code, exit_done);
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  const auto eval = [&](const std::string& weights) {
    const Ran ran = run_troupe({"eval", weights, "--options", (root_ / "o.yaml").string()});
    return ran.code == exit_done ? ran.out.substr(ran.out.find('\n')) : ran.error;
  };
  const TensorSource plain = SafetensorsFile::open(file).source();
  const auto with_prefix = [&](const std::string& prefix, std::size_t without) {
    std::vector<NamedTensor> tensors;
    for (const TensorInfo& tensor : plain.tensors)
      tensors.push_back(
          {(tensors.size() < without ? "" : prefix) + tensor.name, plain.read(tensor.name)});
    const fs::path path = root_ / "wrapped.safetensors";
    EXPECT_TRUE(write_safetensors(path, tensors));
    return path.string();
  };
  for (const char* prefix : {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."})
    EXPECT_EQ(eval(with_prefix(prefix, 0)), eval(file)) << prefix;
  EXPECT_THAT(eval(with_prefix("module.", 1)), HasSubstr("the weights belong to"))
      << "a prefix of some tensors is a part of their names";
}

TEST_F(Verbs, ExportRefusesNamesOfModels) {
  for (const char* name : {"x.pt2", "x.onnx", "x.PT2"}) {
    const Ran ran = run_troupe({"export", root_.string(), "-o", (root_ / name).string()});
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_THAT(ran.error, HasSubstr(std::string(name) + ": export writes weights, not a model"));
    EXPECT_FALSE(fs::exists(root_ / name));
  }
}

TEST_F(Verbs, EvalOfBareWeightsAsksForOptions) {
  const std::string file = (root_ / "w.safetensors").string();
  run_troupe({"export", root_.string(), "-o", file});
  const Ran ran = run_troupe({"eval", file});
  EXPECT_EQ(ran.code, exit_usage);
  EXPECT_THAT(ran.error, HasSubstr("--options RUN/options_restart.yaml"));
}

TEST_F(Verbs, EvalRefusesWeightsOfAnotherModel) {
  const Ran ran = run_troupe({"eval", root_.string(), "-r", "model.widths=[9]"});
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(ran.error, HasSubstr("error: " + checkpoint_.string() +
                                   ": model.widths is [9] now, was [8]: the weights belong to"));
  EXPECT_THAT(ran.error, HasSubstr("[8, 16]"));
  EXPECT_THAT(ran.error, HasSubstr("\n  try: -r 'model.widths=[8]'"));
}

TEST_F(Verbs, EvalNamesTheModelThatWroteTheWeights) {
  const Ran ran = run_troupe({"eval", root_.string(), "-r", "model={name: mnist_cnn}"});
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(ran.error, HasSubstr(": model.name is mnist_cnn now, was mlp: the weights belong"));
  EXPECT_THAT(ran.error, HasSubstr("\n  try: -r model.name=mlp\n"));
}

TEST(Help, SeparatesGroupsByOneEmptyLineAndNamesFromTheirText) {
  for (const char* verb : {"train", "plan", "launch", "jobscript", "doctor", "eval"})
    EXPECT_THAT(run_troupe({verb, "--help"}).out, testing::Not(HasSubstr("\n\n\n"))) << verb;
  EXPECT_THAT(run_troupe({"launch", "--help"}).out,
              testing::ContainsRegex("\n  --no-python  +COMMAND is always"));
}

TEST(Help, FitsATerminalOf100Columns) {
  for (const char* verb : {"train", "plan", "fetch", "eval", "export", "inspect", "options",
                           "launch", "jobscript", "doctor"}) {
    std::istringstream lines(run_troupe({verb, "--help"}).out);
    for (std::string line; std::getline(lines, line);) {
      EXPECT_LE(line.size(), 100u) << verb << ": " << line;
      EXPECT_THAT(line, testing::Not(HasSubstr("Excludes"))) << verb;
    }
  }
}

TEST_F(Verbs, InspectListsTensorsAndFindsDamage) {
  const Ran whole = run_troupe({"inspect", root_.string()});
  EXPECT_EQ(whole.code, exit_done) << whole.error;
  EXPECT_THAT(whole.out, HasSubstr("checkpoint of step 7"));
  EXPECT_THAT(whole.out, HasSubstr("position: after step 7, in epoch 2 (step 3), seed 1\n"
                                   "world generation: 3\n"));
  EXPECT_THAT(whole.out, HasSubstr("run intra_op_threads: 2"));
  EXPECT_THAT(whole.out, HasSubstr("optimizer.momentum.x  f32    [2]"));

  std::fstream shard(checkpoint_ / "stage_00.tensors", std::ios::in | std::ios::out);
  shard.seekp(20);
  shard.put('!');
  shard.close();
  const Ran damaged = run_troupe({"inspect", checkpoint_.string()});
  EXPECT_EQ(damaged.code, exit_failed);
  EXPECT_THAT(damaged.error, HasSubstr("stage_00.tensors"));
}

TEST_F(Verbs, InspectTellsThatItReadsAnOlderCheckpointThanTheDamagedNewestOne) {
  const std::string digest = run_troupe({"inspect", "--digest", root_.string()}).out;
  Manifest manifest;
  manifest.step = 8;
  const fs::path newest =
      write_checkpoint(root_ / "checkpoints", manifest, {{0, {{"x", Tensor::zeros({2})}}}}).value();
  fs::resize_file(newest / "stage_00.tensors", 10);
  const Ran whole = run_troupe({"inspect", root_.string()});
  EXPECT_EQ(whole.code, exit_failed);
  EXPECT_THAT(whole.out, HasSubstr("checkpoint of step 7"));
  EXPECT_THAT(whole.error, HasSubstr("skipped " + newest.string()));
  const Ran short_form = run_troupe({"inspect", "--digest", root_.string()});
  EXPECT_EQ(short_form.code, exit_failed);
  EXPECT_EQ(short_form.out, digest);
  EXPECT_THAT(short_form.error, HasSubstr("skipped " + newest.string()));
}

TEST_F(Verbs, InspectCountsEpochsFromOneAsTheEpochLinesDo) {
  const std::string out = (root_ / "out").string();
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  const auto train = [&](const std::string& steps) {
    return run_troupe({
        "train",
        (root_ / "o.yaml").string(),
        "-o",
        out,
        "--restart",
        "auto",
        "-r",
        "train.batch_size=60",
        "-r",
        "train.epochs=3",
        "-r",
        "train.steps=" + steps,
        "-r",
        "train.schedule=constant",
        "-r",
        "checkpoint.keep=0",
    });
  };
  const auto inspected = [&](const std::string& step) {
    return run_troupe({"inspect", out + "/checkpoints/step_000000" + step}).out;
  };
  ASSERT_EQ(train("4").code, exit_done);
  EXPECT_THAT(inspected("04"), HasSubstr("after step 4 of 4, in epoch 1/3 (step 4 of 10), seed 1"));
  const Ran second = train("20");
  ASSERT_EQ(second.code, exit_done);
  EXPECT_THAT(second.out, HasSubstr("Epoch 2/3: "));
  EXPECT_THAT(inspected("20"), HasSubstr("after step 20 of 20, at the end of epoch 2/3, seed 1"));
  ASSERT_EQ(train("25").code, exit_done);
  EXPECT_THAT(inspected("25"), HasSubstr("after step 25 of 25, in epoch 3/3 (step 5 of 10)"));
}

TEST_F(Verbs, TrainRefusesToResumeFromNothingAndFromAFile) {
  const std::string options = (root_ / "o.yaml").string(), out = (root_ / "out").string();
  std::ofstream(options) << resolved_yaml(options_);
  const auto restarted = [&](const std::string& from) {
    const Ran ran = run_troupe({"train", options, "-o", out, "--restart", from});
    EXPECT_EQ(ran.code, exit_usage);
    EXPECT_FALSE(fs::exists(out));
    return ran.error;
  };
  EXPECT_THAT(restarted(""), HasSubstr("--restart has an empty value"));
  EXPECT_THAT(restarted(options),
              testing::AllOf(HasSubstr("o.yaml: it is a file"), HasSubstr("-r model.weights=")));
  EXPECT_THAT(run_troupe({"eval", checkpoint_.string(), "--options", ""}).error,
              HasSubstr("--options has an empty value"));
}

TEST_F(Verbs, InspectPrintsOtherPositionsAsTheyAre) {
  Manifest manifest;
  manifest.step = 8;
  manifest.position = R"({"sample":[640]})";
  write_checkpoint(root_ / "checkpoints", manifest, {{0, {{"x", Tensor::zeros({2})}}}}).value();
  EXPECT_THAT(run_troupe({"inspect", root_.string()}).out,
              HasSubstr("position: {\"sample\":[640]}\n"));
}

TEST_F(Verbs, NameWhatACheckpointLacks) {
  fs::remove(checkpoint_ / "stage_00.tensors");
  const Ran ran = run_troupe({"inspect", checkpoint_.string()});
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(
      ran.error,
      testing::AllOf(HasSubstr("step_00000007 is incomplete: "), HasSubstr("stage_00.tensors"),
                     HasSubstr("try: there is no complete checkpoint in the same folder")));
  Manifest manifest;
  manifest.step = 5;
  manifest.options = resolved_yaml(options_);
  const fs::path other =
      write_checkpoint(root_ / "checkpoints", manifest, {{0, {{"x", Tensor::zeros({2})}}}}).value();
  for (const std::vector<std::string>& verb : {std::vector<std::string>{"inspect"},
                                               {"eval"},
                                               {"export", "-o", (root_ / "w.pt").string()}}) {
    std::vector<std::string> words = verb;
    words.push_back(checkpoint_.string() + "/");
    EXPECT_THAT(run_troupe(words).error,
                HasSubstr("the newest complete checkpoint in the same folder is " + other.string()))
        << verb[0];
  }
}

TEST_F(Verbs, InspectTellsIdxFromOtherFiles) {
  const unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 3, 7, 7, 7};
  std::ofstream(root_ / "labels", std::ios::binary)
      .write(reinterpret_cast<const char*>(idx), sizeof idx);
  EXPECT_THAT(run_troupe({"inspect", (root_ / "labels").string()}).out, HasSubstr("[3]"));
  std::ofstream(root_ / "text") << "neither the one nor the other";
  const Ran ran = run_troupe({"inspect", (root_ / "text").string()});
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(ran.error, testing::AllOf(HasSubstr("a file of an unknown kind"),
                                        HasSubstr("a model (.pt2 or .onnx)")));
  const Ran eval = run_troupe({"eval", (root_ / "text").string()});
  EXPECT_THAT(eval.error, testing::AllOf(HasSubstr("a file of an unknown kind"),
                                         testing::Not(HasSubstr("onnx"))));
}

TEST_F(Verbs, TrainRefusesACheckpointOfMoreStepsThanARunHas) {
  Manifest manifest;
  manifest.step = (std::int64_t{1} << 32) + 1;
  manifest.options = resolved_yaml(options_);
  manifest.position = "{}";
  write_checkpoint(root_ / "later", manifest, {{0, {{"x", Tensor::zeros({2})}}}}).value();
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  const Ran ran = run_troupe({"train", (root_ / "o.yaml").string(), "-o", (root_ / "out").string(),
                              "--restart", (root_ / "later").string()});
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(ran.error, HasSubstr("has step 4294967297, which exceeds the largest step number"));
}

TEST_F(Verbs, TrainEndsWhereTheTargetIsReachedAndStaysEnded) {
  using testing::AllOf, testing::Not;
  const std::string out = (root_ / "out").string();
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  std::vector<std::string> words = {"train", (root_ / "o.yaml").string(), "-o", out};
  for (const char* setting : {"train.epochs=30", "train.lr=0.02", "train.schedule=constant",
                              "train.target_accuracy=0.8", "train.patience=2", "log.every_steps=9"})
    words.insert(words.end(), {"-r", setting});
  const Ran ran = run_troupe(words);
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out,
              HasSubstr("\nends early after 2 evaluations in a row with a test accuracy of "
                        "0.8 or more\n"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("Epoch ([0-9]+)/30: [^\n]*\n"
                                              "Target accuracy reached. Early stopping after epoch "
                                              "[0-9]+[.]\n"));
  EXPECT_THAT(ran.out, testing::ContainsRegex("Training complete. Final Accuracy: [01][.][0-9]+\n"
                                              "Total Time: [0-9.]+s, Throughput: [0-9.]+ img/s\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("Epoch 30/30")));
  words.insert(words.end(), {"--restart", "auto"});
  const Ran again = run_troupe(words);
  EXPECT_EQ(again.code, exit_done);
  EXPECT_THAT(again.out,
              AllOf(HasSubstr("nothing left to train"), HasSubstr("Target accuracy reached.")));
  words.insert(words.end(), {"-r", "train.target_accuracy=0", "-r", "train.patience=0"});
  EXPECT_THAT(run_troupe(words).out, HasSubstr("Epoch 30/30")) << "without a target it goes on";
}

TEST_F(Verbs, TrainTellsEdgesStepsAndMessagesWhenAsked) {
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  const auto train = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words{
        "train", (root_ / "o.yaml").string(), "-o", (root_ / name).string(), "-r", "train.steps=3"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run_troupe(words);
    EXPECT_EQ(ran.code, exit_done) << ran.error;
    return ran.out;
  };
  EXPECT_THAT(train("quiet", {}), testing::Not(HasSubstr("edge ")));
  EXPECT_THAT(test::read_text(root_ / "quiet" / "train.log"), testing::Not(HasSubstr("debug")));
  const std::string shown = train("loud", {"-v"});
  const std::string logged = test::read_text(root_ / "loud" / "train.log");
  for (const std::string& text : {shown, logged}) {
    EXPECT_THAT(text, testing::ContainsRegex("edge loader.samples → stage/0.input: within the "
                                             "process; [0-9]+ slots of [0-9.]+ [KM]?i?B"));
    EXPECT_THAT(text, HasSubstr("step 3 committed: loss "));
    EXPECT_THAT(text, HasSubstr("evaluated after step 3: "));
    EXPECT_THAT(text, HasSubstr("checkpoint of step 3 is complete"));
    EXPECT_THAT(text, testing::ContainsRegex("edge loader.samples → stage/0.input: [0-9]+ "
                                             "messages, at most [0-9.]+ [KM]?i?B"));
  }
  EXPECT_THAT(logged, HasSubstr(" debug edge "));
}

TEST_F(Verbs, TrainDecidesByTheDueEvaluationWhereAnEarlierOneReachedANewTarget) {
  const fs::path out = root_ / "out";
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  std::vector<std::string> words = {"train", (root_ / "o.yaml").string(), "-o", out.string()};
  for (const char* setting : {"train.epochs=2", "train.lr=0.001", "train.schedule=constant"})
    words.insert(words.end(), {"-r", setting});
  ASSERT_EQ(run_troupe(words).code, exit_done);
  auto scores = evaluations_until(out / "train.csv", 1'000'000);
  ASSERT_EQ(scores.size(), 2);
  // As if the run had ended before its second evaluation, and the first one had been perfect.
  std::string csv = test::read_text(out / "train.csv");
  csv = csv.substr(0, csv.rfind(fmt::format(",{},", scores[1].loss))) + ",,,,\n";
  const std::string first =
      fmt::format(",{},{}\n", scores[0].correct.value_or(-1), scores[0].count);
  csv.replace(csv.find(first), first.size(), fmt::format(",{0},{0}\n", scores[0].count));
  std::ofstream(out / "train.csv") << csv;
  words.insert(words.end(), {"--restart", "auto", "-r", "train.epochs=4", "-r",
                             "train.target_accuracy=1", "-r", "checkpoint.every_epochs=2"});
  const Ran ran = run_troupe(words);
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  const auto kept = list_checkpoints(out / "checkpoints");
  scores = evaluations_until(out / "train.csv", 1'000'000);
  EXPECT_EQ(scores.size(), 4) << "what it trained further has rows";
  EXPECT_EQ(kept.back().step, scores.back().step) << "and a checkpoint";
}

TEST_F(Verbs, TrainTakesWhatFitsOfWeightsForOtherClasses) {
  const std::string file = (root_ / "w.safetensors").string(), out = (root_ / "out").string();
  ASSERT_EQ(run_troupe({"export", root_.string(), "-o", file}).code, exit_done);
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  std::vector<std::string> words = {"train", (root_ / "o.yaml").string(), "-o", out};
  for (const std::string& setting :
       {"model.weights=" + file, std::string("model.classes=12"), std::string("train.steps=2"),
        std::string("train.freeze=['*.0.*']")})
    words.insert(words.end(), {"-r", setting});
  const Ran strict = run_troupe(words);
  EXPECT_NE(strict.code, exit_done);
  EXPECT_THAT(strict.error, HasSubstr("model.strict=false"));
  words.insert(words.end(), {"-r", "model.strict=false"});
  const Ran ran = run_troupe(words);
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out + ran.error,
              HasSubstr("keep their initial values: layers.1.weight ([12, 8] here, "
                        "[10, 8] in the file), layers.1.bias ([12] here, [10] in the "
                        "file)"));
  const TensorSource before = SafetensorsFile::open(file).source();
  const TensorSource after = open_checkpoint(newest_complete_checkpoint(out).folder).source();
  EXPECT_TRUE(test::same(after.read("layers.0.weight"), before.read("layers.0.weight")))
      << "it is frozen";
  EXPECT_EQ(after.read("layers.1.weight").shape(), Shape({12, 8}));
  words[3] = out + "2";
  words.insert(words.end(), {"-r", "model.name=mnist_cnn", "-r", "train.freeze=[]"});
  EXPECT_THAT(run_troupe(words).error,
              HasSubstr(file + ": none of its 4 tensors fits: the file has "));
}

TEST_F(Verbs, TrainRefusesWeightsOfWhichOnlyCountersFit) {
  const auto model = [](int width, int classes) {
    return fmt::format(
        "model: {{name: wide_resnet, widths: [{0}, {0}, {0}, {0}], classes: {1}}}\n"
        "data: {{name: synthetic, shape: [1, 28, 28], count: 16}}\n"
        "train: {{steps: 1, batch_size: 8, micro_batches: 1, evaluate: false}}\n",
        width, classes);
  };
  std::ofstream(root_ / "one.yaml") << model(4, 10);
  std::ofstream(root_ / "other.yaml") << model(6, 11);
  const std::string one = (root_ / "one").string();
  ASSERT_EQ(run_troupe({"train", (root_ / "one.yaml").string(), "-o", one}).code, exit_done);
  const Ran ran =
      run_troupe({"train", (root_ / "other.yaml").string(), "-o", (root_ / "other").string(), "-r",
                  "model.weights=" + one, "-r", "model.strict=false"});
  EXPECT_NE(ran.code, exit_done);
  EXPECT_THAT(ran.error, HasSubstr("none of its 86 tensors fits"));
}

TEST_F(Verbs, EvalAndExportUseTheMovingAverageOfTheWeights) {
  const std::string out = (root_ / "out").string(), file = (root_ / "w.safetensors").string();
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  ASSERT_EQ(run_troupe({"train", (root_ / "o.yaml").string(), "-o", out, "-r",
                        "train.ema_decay=0.95", "-r", "train.lr=0.02"})
                .code,
            exit_done);
  const auto scores = evaluations_until(fs::path(out) / "train.csv", 1'000'000);
  const std::string loss = fmt::format("test loss {:.9g}\n", scores.back().loss);
  const std::string average = "(the moving average of the weights)";
  const Ran evaluated = run_troupe({"eval", out});
  EXPECT_THAT(evaluated.out, testing::AllOf(HasSubstr(loss), HasSubstr(average)));
  const Ran ran = run_troupe({"export", out, "-o", file});
  ASSERT_EQ(ran.code, exit_done);
  EXPECT_THAT(ran.out, HasSubstr(average));
  EXPECT_THAT(run_troupe({"export", root_.string(), "-o", file + "0"}).out,
              testing::Not(HasSubstr("average")));
  EXPECT_THAT(run_troupe({"eval", file, "--options", (root_ / "o.yaml").string()}).out,
              HasSubstr(loss));
  const Checkpoint checkpoint = open_checkpoint(newest_complete_checkpoint(out).folder);
  const TensorSource exported = SafetensorsFile::open(file).source();
  const std::string name = exported.tensors.front().name;
  EXPECT_TRUE(
      test::same(exported.read(name), checkpoint.source().read("optimizer.average." + name)));
  EXPECT_FALSE(test::same(exported.read(name), checkpoint.source().read(name)));
}

TEST_F(Verbs, TrainScalesLossesAndResumesTheScale) {
  const std::string out = (root_ / "out").string();
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  std::vector<std::string> words = {"train", (root_ / "o.yaml").string(), "-o", out};
  // Weights that make gradients of thousands, which overflow with the first scales.
  for (const char* setting : {"train.class_weights=[1e4,1e4,1e4,1e4,1e4,1e4,1e4,1e4,1e4,1e4]",
                              "train.lr=1e-6", "train.schedule=constant", "loss_scale.mode=dynamic",
                              "loss_scale.init_scale=8.507059173023462e+37"})
    words.insert(words.end(), {"-r", setting});
  const Ran ran = run_troupe(words);
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, testing::AllOf(HasSubstr("\ndynamic loss scaling\n"),
                                      HasSubstr("step 1 was skipped: "), HasSubstr("epoch 1: "),
                                      HasSubstr("\nSkipped Steps: ")));
  const auto csv = [&] { return test::read_text(fs::path(out) / "train.csv"); };
  const std::string first = ",8.507059173023462e+37,";
  EXPECT_THAT(csv(), HasSubstr(",training_seconds,loss_scale,skipped_steps,test_loss,"));
  EXPECT_THAT(csv(), HasSubstr(first));
  const std::string inspected = run_troupe({"inspect", out}).out;
  EXPECT_THAT(inspected, testing::ContainsRegex(
                             "\nloss scale: [0-9.e+]+, [0-9]+ finite steps?, [0-9]+ overflows?\n"));
  EXPECT_THAT(inspected, testing::ContainsRegex("\npartition: [0-9]+ ([+] [0-9]+ )*blocks?\n"));
  EXPECT_THAT(inspected, testing::ContainsRegex("\nupdates: [0-9]+\n"));
  words.insert(words.end(), {"--restart", "auto", "-r", "train.epochs=2"});
  const Ran more = run_troupe(words);
  EXPECT_EQ(more.code, exit_done) << more.error;
  EXPECT_THAT(csv(), HasSubstr("\n10,2,"));
  EXPECT_EQ(csv().find(first), csv().rfind(first)) << "the scale begins anew";
}

TEST_F(Verbs, TrainRemovesTheShardsThatAKilledRunHasLeft) {
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  const auto train = [&](const char* steps) {
    return run_troupe({"train", (root_ / "o.yaml").string(), "-o", (root_ / "out").string(),
                       "--restart", "auto", "-r", steps});
  };
  ASSERT_EQ(train("train.steps=2").code, exit_done);
  const fs::path left = root_ / "out" / "checkpoints" / ".step_00000099.partial-shards";
  fs::create_directories(left / "shard");
  ASSERT_EQ(train("train.steps=3").code, exit_done);
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(Verbs, TrainKeepsTheBestCheckpointBesideTheNewest) {
  const fs::path checkpoints = root_ / "out" / "checkpoints";
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  std::vector<std::string> words = {"train", (root_ / "o.yaml").string(), "-o",
                                    (root_ / "out").string()};
  // The learning rate is far too high after the first epoch, whose score stays the best.
  for (const char* setting :
       {"train.epochs=4", "train.lr=30", "train.schedule=constant", "train.warmup_steps=90",
        "train.batch_size=6", "train.micro_batches=1", "train.stop_on_nan=false",
        "checkpoint.keep=1", "checkpoint.keep_best=true"})
    words.insert(words.end(), {"-r", setting});
  const Ran ran = run_troupe(words);
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  const auto scores = evaluations_until(root_ / "out" / "train.csv", 1'000'000);
  ASSERT_EQ(scores.size(), 4);
  const std::uint32_t best = scores[best_of(MonitoredScore::test_loss, 0, scores)].step;
  std::set<std::int64_t> kept;
  for (const CheckpointInfo& found : list_checkpoints(checkpoints)) kept.insert(found.step);
  EXPECT_TRUE(kept.contains(scores.back().step));
  EXPECT_LE(kept.size(), 2) << "the newest and the best";
  EXPECT_TRUE(kept.contains(best));
  const std::string named =
      "best checkpoint in " + (checkpoints / checkpoint_name(best)).string() + ": test loss";
  EXPECT_THAT(ran.out, HasSubstr(named));
  const fs::path leftover = checkpoints / ".step_00000001.partial-removed";
  fs::create_directories(leftover);
  words.insert(words.end(), {"--restart", "auto"});
  EXPECT_THAT(run_troupe(words).out, AllOf(HasSubstr("nothing left to train"), HasSubstr(named)));
  EXPECT_FALSE(fs::exists(leftover));

  // Another output folder belongs to another run: its files are left, and its score is not known.
  const fs::path other = root_ / "other";
  fs::create_directories(other / "checkpoints" / leftover.filename());
  fs::copy(checkpoints / checkpoint_name(best), other / "checkpoints" / checkpoint_name(best),
           fs::copy_options::recursive);
  words = {"train",     (root_ / "o.yaml").string(),
           "-o",        other.string(),
           "--restart", (checkpoints / checkpoint_name(scores.back().step)).string()};
  for (const char* setting :
       {"train.epochs=4", "train.lr=30", "train.schedule=constant", "train.warmup_steps=90",
        "train.batch_size=6", "train.micro_batches=1", "checkpoint.keep_best=true"})
    words.insert(words.end(), {"-r", setting});
  const Ran elsewhere = run_troupe(words);
  EXPECT_THAT(elsewhere.out,
              AllOf(HasSubstr("nothing left to train"), Not(HasSubstr("best checkpoint in"))))
      << elsewhere.error;
  EXPECT_TRUE(fs::exists(other / "checkpoints" / leftover.filename()));
}

TEST_F(Verbs, TrainWarnsIfTheBestEvaluationHasNoCheckpoint) {
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  std::vector<std::string> words = {"train", (root_ / "o.yaml").string(), "-o",
                                    (root_ / "out").string()};
  // The score of the first epoch stays the best, and only the last checkpoint is written.
  for (const char* setting :
       {"train.epochs=4", "train.lr=30", "train.schedule=constant", "train.warmup_steps=90",
        "train.batch_size=6", "train.micro_batches=1", "train.stop_on_nan=false",
        "checkpoint.every_epochs=0", "checkpoint.keep_best=true"})
    words.insert(words.end(), {"-r", setting});
  const Ran ran = run_troupe(words);
  const auto scores = evaluations_until(root_ / "out" / "train.csv", 1'000'000);
  ASSERT_EQ(scores.size(), 4) << ran.error;
  const Evaluation& best = scores[best_of(MonitoredScore::test_loss, 0, scores)];
  ASSERT_LT(best.step, scores.back().step);
  const std::string sentence =
      fmt::format("the best evaluation, after step {} with {}, has no checkpoint", best.step,
                  scores_text(best, " and "));
  EXPECT_THAT(ran.out + ran.error, HasSubstr(sentence));
  words.insert(words.end(), {"--restart", "auto"});
  const fs::path leftover = root_ / "out" / "checkpoints" / ".step_00000001.partial-removed";
  fs::create_directories(leftover);
  {
    const OutputFolder used = OutputFolder::create(root_ / "out");  // as by another process
    EXPECT_THAT(run_troupe(words).error, HasSubstr(sentence));
    EXPECT_TRUE(fs::exists(leftover)) << "it may be what the other one writes";
  }
  (void)run_troupe(words);
  EXPECT_FALSE(fs::exists(leftover));
}

TEST_F(Verbs, TrainRemovesTheFormerBestCheckpointIfTheLastIsBetter) {
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  std::vector<std::string> words = {"train", (root_ / "o.yaml").string(), "-o",
                                    (root_ / "out").string()};
  for (const char* setting : {"train.epochs=2", "train.lr=0.001", "train.schedule=constant",
                              "checkpoint.keep=1", "checkpoint.keep_best=true"})
    words.insert(words.end(), {"-r", setting});
  const Ran ran = run_troupe(words);
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  const auto scores = evaluations_until(root_ / "out" / "train.csv", 1'000'000);
  ASSERT_EQ(scores.size(), 2);
  ASSERT_LT(scores[1].loss, scores[0].loss);
  const auto kept = list_checkpoints(root_ / "out" / "checkpoints");
  ASSERT_EQ(kept.size(), 1) << "the newest is the best";
  EXPECT_EQ(kept[0].step, scores[1].step);
}

TEST_F(Verbs, NameTheBestCheckpointOfARunThatFailsAndTakeIt) {
  const std::string out = (root_ / "out").string();
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  // The learning rate is far too high after the first epoch, whose score stays the best.
  std::vector<std::string> words = {"train", (root_ / "o.yaml").string(), "-o", out};
  for (const char* setting : {"train.lr=30", "train.schedule=constant", "train.warmup_steps=15",
                              "train.batch_size=60", "train.micro_batches=1", "train.epochs=4",
                              "train.stop_on_nan=false", "checkpoint.keep_best=true"})
    words.insert(words.end(), {"-r", setting});
  std::vector<std::string> part = words;
  part.insert(part.end(), {"-r", "train.steps=20"});
  ASSERT_EQ(run_troupe(part).code, exit_done);
  words.insert(words.end(), {"--restart", "auto", "-r", "restarts.max=0", "-r",
                             "faults=[{actor: stage/0, step: 21, micro_batch: 0}]"});
  const Ran failed = run_troupe(words);
  EXPECT_EQ(failed.code, exit_failed);
  const auto best = best_checkpoint_of(out);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->monitor, "test_loss");
  const std::string line = best->folder.string() + ": " + scores_text(best->evaluation) + "\n";
  EXPECT_THAT(failed.out, HasSubstr("best checkpoint in " + line));
  const Ran inspected = run_troupe({"inspect", out});
  EXPECT_THAT(inspected.out, HasSubstr("best checkpoint by test_loss: " + line));
  ASSERT_THAT(inspected.out, testing::Not(testing::StartsWith(best->folder.string())))
      << "the newest is another one";
  const Ran evaluated = run_troupe({"eval", out, "--best"});
  EXPECT_THAT(evaluated.out,
              testing::AllOf(testing::StartsWith(best->folder.string() + ", on "),
                             HasSubstr(fmt::format("test loss {:.9g}\n", best->evaluation.loss))));
  const Ran exported =
      run_troupe({"export", out, "--best", "-o", (root_ / "best.safetensors").string()});
  EXPECT_THAT(exported.out, HasSubstr("from " + best->folder.string() + "\n"));
  fs::resize_file(best->folder / "stage_00.tensors", 100);
  const Ran without = run_troupe({"eval", out, "--best"});
  EXPECT_EQ(without.code, exit_done) << without.error;
  EXPECT_THAT(without.out, testing::Not(HasSubstr(best->folder.string())));
  for (const Ran& ran : {without, run_troupe({"inspect", out})})
    EXPECT_THAT(ran.error, HasSubstr("skipped " + best->folder.string() + ": "));
  const Ran none = run_troupe({"eval", root_.string(), "--best"});
  EXPECT_EQ(none.code, exit_usage) << "it has no evaluations";
  EXPECT_THAT(none.error, HasSubstr("--best: " + root_.string()));
}

TEST_F(Verbs, TheBestCheckpointIsOneThatThereIs) {
  const std::vector<Evaluation> evaluations = {{.step = 10, .loss = 3, .correct = 1, .count = 4},
                                               {.step = 20, .loss = 1, .correct = 3, .count = 4},
                                               {.step = 30, .loss = 2, .correct = 2, .count = 4},
                                               {.step = 40, .loss = 2, .correct = 3, .count = 4}};
  const auto best = [&](MonitoredScore score) {
    const auto found = best_with_checkpoint(root_, score, evaluations);
    return found ? found->step : 0;
  };
  EXPECT_EQ(best(MonitoredScore::test_loss), 0);
  for (const int step : {10, 30, 40}) fs::create_directory(root_ / checkpoint_name(step));
  EXPECT_EQ(best(MonitoredScore::test_loss), 30) << "of equal ones the first";
  EXPECT_EQ(best(MonitoredScore::test_accuracy), 40);
}

TEST_F(Verbs, ForeignFilesAreNamedWithWhatCanBeRead) {
  using testing::AllOf;
  const auto file = [&](const char* name, std::string_view content) {
    std::ofstream(root_ / name, std::ios::binary) << content;
    return (root_ / name).string();
  };
  const std::string picture = file("a.png", "\x89PNG\r\n\x1a\n0123456789");
  const std::string empty = file("empty", "");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"inspect", picture},
        {"inspect", "--digest", picture},
        {"eval", picture},
        {"export", picture, "-o", (root_ / "o").string()}}) {
    const Ran ran = run_troupe(words);
    EXPECT_EQ(ran.code, exit_failed);
    EXPECT_THAT(ran.error,
                AllOf(HasSubstr("a.png is a PNG image\n  try: "), HasSubstr("safetensors")));
    const bool inspects = words.front() == "inspect" && words.size() == 2;
    EXPECT_EQ(ran.error.find("IDX") != std::string::npos, inspects) << "only what the verb reads";
  }
  EXPECT_THAT(run_troupe({"inspect", empty}).error, HasSubstr("empty is an empty file"));
  EXPECT_THAT(run_troupe({"inspect", (root_ / "none").string()}).error, HasSubstr("No such file"));
  EXPECT_THAT(run_troupe({"eval", file("i.gz", "\x1f\x8b\x08")}).error,
              HasSubstr("compressed by gzip"));
  fs::create_directory(root_ / "folder");
  EXPECT_THAT(run_troupe({"inspect", (root_ / "folder").string()}).error,
              AllOf(HasSubstr("no checkpoint in"), HasSubstr("try: ")));
}

TEST_F(Verbs, ExportWarnsOfANameOfAnotherFormat) {
  for (const std::string name :
       {"w.bin", "w.ckpt", "w.npz", "w.npy", "w.h5", "w.pickle", "w.pt.gz", "w.BIN", "w.txt"}) {
    const Ran ran = run_troupe({"export", root_.string(), "-o", (root_ / name).string()});
    EXPECT_EQ(ran.code, exit_done);
    EXPECT_THAT(ran.error, HasSubstr(name + " is written as safetensors"));
  }
  for (const char* name : {"w", "w.pt", "w.pth", "w.safetensors", "w.SafeTensors"})
    EXPECT_EQ(run_troupe({"export", root_.string(), "-o", (root_ / name).string()}).error, "");
}

TEST_F(Verbs, ExportDoesNotMindTheCaseOfAName) {
  for (const char* name : {"w.PT", "w.Pth"}) {
    const std::string file = (root_ / name).string();
    EXPECT_EQ(run_troupe({"export", root_.string(), "-o", file}).error, "");
    EXPECT_TRUE(test::read_text(file).starts_with("PK")) << name << ": as torch.save writes it";
  }
}

TEST_F(Verbs, ExportToAFolderThatIsNotThereIsAnError) {
  const Ran ran = run_troupe({"export", root_.string(), "-o", (root_ / "no" / "w").string()});
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(ran.error, HasSubstr("creating '" + (root_ / "no" / "w").string() + "'"));
  EXPECT_THAT(ran.error, HasSubstr("its folder exists"));
}

TEST_F(Verbs, ExportReplacesWeightsButNothingElseUnasked) {
  const std::string notes = (root_ / "notes.txt").string();
  std::ofstream(notes) << "dear to somebody";
  const Ran refused = run_troupe({"export", root_.string(), "-o", notes});
  EXPECT_EQ(refused.code, exit_usage);
  EXPECT_THAT(refused.error, HasSubstr("--force"));
  EXPECT_EQ(fs::file_size(notes), 16u);
  EXPECT_EQ(run_troupe({"export", root_.string(), "-o", notes, "--force"}).code, exit_done);
  EXPECT_EQ(run_troupe({"export", root_.string(), "-o", notes}).code, exit_done);  // weights by now
  const std::ofstream made(root_ / "made_by_mktemp");
  EXPECT_EQ(run_troupe({"export", root_.string(), "-o", (root_ / "made_by_mktemp").string()}).code,
            exit_done);
}

TEST_F(Verbs, NamesThatAreTooLongAreToldAsThat) {
  std::ofstream(root_ / "o.yaml") << resolved_yaml(options_);
  const std::string name = (root_ / std::string(300, 'n')).string();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", (root_ / "o.yaml").string(), "-o", name},
        {"export", root_.string(), "-o", name},
        {"inspect", name}}) {
    const Ran ran = run_troupe(words);
    EXPECT_EQ(ran.code, exit_failed);
    EXPECT_THAT(ran.error, testing::AllOf(HasSubstr("File name too long"),
                                          HasSubstr("try: choose a shorter name")));
  }
}

TEST_F(Verbs, TrainTakesTheLastRestart) {
  const Ran ran = run_troupe({"train", "none.yaml", "--restart", "auto", "--restart", "x"});
  EXPECT_THAT(ran.error, HasSubstr("none.yaml: cannot be opened"));
}

TEST_F(Verbs, DoctorTakesOverridesOfTheDefaults) {
  EXPECT_THAT(run_troupe({"doctor", "-r", "device=cpu"}).out,
              AllOf(HasSubstr("GPUs "), Not(HasSubstr("data "))));
  EXPECT_THAT(run_troupe({"doctor", "-r", "device=gpux"}).error, HasSubstr("gpux"));
}

TEST_F(Verbs, PlanAlignsItsTableHoweverLongTheNamesAre) {
  std::ofstream(root_ / "o.yaml")
      << "model: {name: mlp, widths: [8, 8]}\n"
         "data: {name: synthetic, shape: [1, 4, 4], count: 600}\n"
         "parallel: {pipeline: 2, data: 12, partition: [2, 2]}\ntrain: {micro_batches: 12}\n";
  const Ran ran = run_troupe({"plan", (root_ / "o.yaml").string()});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  std::istringstream lines(ran.out.substr(ran.out.find("\nedge") + 1));
  std::set<std::size_t> widths;
  for (std::string line; std::getline(lines, line) && !line.starts_with("0 B: ");)
    widths.insert(static_cast<std::size_t>(
        std::ranges::count_if(line, [](unsigned char byte) { return (byte & 0xc0) != 0x80; })));
  EXPECT_EQ(widths.size(), 1u) << ran.out;
}

}  // namespace
}  // namespace troupe
