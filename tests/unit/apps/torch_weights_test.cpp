// Weights of PyTorch's files in the verbs: train, eval, export and inspect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "apps/command.h"
#include "runtime/file/safetensors.h"
#include "runtime/file/torch_file.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string golden(const std::string& name) {
  return TROUPE_SOURCE_DIR "/tests/golden/torch/" + name;
}

class TorchWeightsVerbs : public testing::Test {
 protected:
  TorchWeightsVerbs() {
    std::ofstream(options_) << "model: {name: mlp, widths: [8], classes: 10}\n"
                               "data: {name: synthetic, shape: [1, 4, 4], count: 16}\n"
                               "train: {steps: 2, batch_size: 8, micro_batches: 1}\n";
    trained_ = run_troupe({"train", options_, "-o", path("run")});
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string export_as(const std::string& name) const {
    const Ran ran = run_troupe({"export", path("run"), "-o", path(name)});
    EXPECT_EQ(ran.code, exit_done) << ran.error;
    return path(name);
  }
  std::string eval(const std::string& weights) const {
    const Ran ran = run_troupe({"eval", weights, "--options", options_});
    return ran.code == exit_done ? ran.out.substr(ran.out.find('\n')) : ran.error;
  }
  static std::string digest(const std::string& weights) {
    return run_troupe({"inspect", "--digest", weights}).out;
  }

  test::TemporaryFolder folder_;
  std::string options_ = path("o.yaml");
  Ran trained_;
};

TEST_F(TorchWeightsVerbs, ExportWritesWhatEvalAndTrainRead) {
  ASSERT_EQ(trained_.code, exit_done) << trained_.error;
  const std::string safetensors = export_as("w.safetensors");
  for (const char* name : {"w.pt", "w.pth"}) {
    const std::string file = export_as(name);
    EXPECT_EQ(digest(file), digest(path("run")));
    EXPECT_EQ(eval(file), eval(safetensors));
    const Ran ran = run_troupe({"train", options_, "-o", path(name) + ".run", "-r",
                                "model.weights=" + file, "-r", "train.steps=1"});
    EXPECT_EQ(ran.code, exit_done) << ran.error;
  }
  EXPECT_EQ(digest(path("w.pt.run")), digest(path("w.pth.run")));
  EXPECT_EQ(export_as("w.pt"), path("w.pt")) << "an older export is replaced";
  test::write_text(path("other.pt"), "text");
  EXPECT_THAT(run_troupe({"export", path("run"), "-o", path("other.pt")}).error,
              HasSubstr("other.pt exists and is not a PyTorch file"));
}

TEST_F(TorchWeightsVerbs, AResumedRunNeedsNoFileOfInitialWeights) {
  const std::string file = export_as("w.pt");
  const auto train = [&](const std::string& steps, std::vector<std::string> more) {
    std::vector<std::string> words{
        "train", options_, "-r", "model.weights=" + file, "-r", "train.steps=" + steps};
    words.insert(words.end(), more.begin(), more.end());
    return run_troupe(words);
  };
  ASSERT_EQ(train("4", {"-o", path("whole")}).code, exit_done);
  ASSERT_EQ(train("3", {"-o", path("part")}).code, exit_done);
  std::filesystem::remove(file);
  const Ran fresh = train("4", {"-o", path("fresh"), "--restart", "auto"});
  EXPECT_EQ(fresh.code, exit_usage);
  EXPECT_THAT(fresh.error, HasSubstr("model.weights is " + file + ", which does not exist"));
  EXPECT_THAT(fresh.error, HasSubstr("override -r model.weights="));
  const Ran planned = run_troupe({"plan", options_, "-r", "model.weights=" + file});
  EXPECT_EQ(planned.code, exit_usage);
  EXPECT_EQ(planned.error, fresh.error);
  const Ran resumed = train("4", {"-o", path("part"), "--restart", "auto"});
  EXPECT_EQ(resumed.code, exit_done) << resumed.error;
  EXPECT_EQ(digest(path("part")), digest(path("whole")));
  const Ran by_its_options = run_troupe({"train", path("part") + "/options_restart.yaml",
                                         "--restart", path("part"), "-r", "train.steps=5"});
  EXPECT_EQ(by_its_options.code, exit_done) << by_its_options.error;
}

TEST_F(TorchWeightsVerbs, EvalNamesTheFileWhoseWeightsDoNotFit) {
  EXPECT_THAT(eval(golden("training.pt")),
              AllOf(HasSubstr("training.pt: the weights belong to another model"),
                    HasSubstr("unexpected")));
}

TEST_F(TorchWeightsVerbs, RemoveTheNameOfAWrapper) {
  const TensorSource plain = open_torch_file(export_as("w.pt")).tensors;
  for (const std::string wrapper : {"module.", "model._orig_mod."}) {
    TensorSource wrapped = plain;
    for (TensorInfo& tensor : wrapped.tensors) tensor.name = wrapper + tensor.name;
    wrapped.read = [&](const std::string& name) { return plain.read(name.substr(wrapper.size())); };
    stream_torch_file(path("wrapped.pt"), wrapped).value();
    EXPECT_EQ(eval(path("wrapped.pt")), eval(path("w.pt")));
    const Ran ran = run_troupe({"train", options_, "-o", path(wrapper + "run"), "-r",
                                "model.weights=" + path("wrapped.pt"), "-r", "model.classes=11",
                                "-r", "model.strict=false"});
    EXPECT_EQ(ran.code, exit_done) << ran.error;
  }
}

TEST_F(TorchWeightsVerbs, NameTheTensorThatIsNotFinite) {
  const TensorSource plain = open_torch_file(export_as("w.pt")).tensors;
  const std::string first = plain.tensors.front().name;
  TensorSource spoilt = plain;
  spoilt.read = [&](const std::string& name) {
    const Tensor read = plain.read(name);
    Tensor tensor = Tensor::empty(read.shape(), read.dtype(), Device::cpu());
    std::memcpy(tensor.raw(), read.raw(), read.bytes());
    if (name == first) tensor.data<float>()[2] = std::nanf("");
    return tensor;
  };
  stream_torch_file(path("spoilt.pt"), spoilt).value();
  const auto train = [&](const std::string& more) {
    return run_troupe({"train", options_, "-o", path("spoilt" + more), "-r",
                       "model.weights=" + path("spoilt.pt"), "-r", more});
  };
  const Ran ran = train("seed=1");
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(ran.error, HasSubstr("model.weights: " + first + " of " + path("spoilt.pt") +
                                   " has nan at number 3 of "));
  EXPECT_EQ(train("train.stop_on_nan=false").code, exit_done);
  EXPECT_THAT(train("train.freeze=[" + first + "]").error,
              AllOf(HasSubstr("the loss of step 1 is not finite"), Not(HasSubstr("model.weights"))))
      << "what is frozen may be infinite: a mask";
}

TEST_F(TorchWeightsVerbs, TakeThePartOfAFileThatThePathNames) {
  EXPECT_THAT(eval(golden("several.pt")), HasSubstr("generator, discriminator"));
  EXPECT_THAT(eval(golden("several.pt") + "#generator"), HasSubstr("belong to another model"));
  const Ran ran = run_troupe({"inspect", golden("several.pt") + "#generator"});
  EXPECT_THAT(ran.out, HasSubstr("weights: generator\n"));
  EXPECT_THAT(run_troupe({"train", options_, "-r", "model.weights=none.pt#x"}).error,
              HasSubstr("none.pt#x, which does not exist"));
}

TEST_F(TorchWeightsVerbs, MissingNamesHaveTheirNearestMatch) {
  const TensorSource plain = open_torch_file(export_as("w.pt")).tensors;
  const std::string first = plain.tensors.front().name;
  TensorSource renamed = plain;
  renamed.tensors.front().name = "backbone." + first;
  renamed.read = [&](const std::string& name) {
    return plain.read(name.starts_with("backbone.") ? first : name);
  };
  stream_torch_file(path("renamed.pt"), renamed).value();
  EXPECT_THAT(eval(path("renamed.pt")), AllOf(HasSubstr("1 missing (" + first + " [like backbone." +
                                                        first + " of the file])"),
                                              HasSubstr("[like " + first + " of the model]")));
  const Ran ran = run_troupe({"train", options_, "-o", path("partly"), "-r",
                              "model.weights=" + path("renamed.pt"), "-r", "model.strict=false"});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(
      ran.out + ran.error,
      AllOf(HasSubstr(first + " (the file lacks it) [like backbone." + first + " of the file]"),
            HasSubstr("1 tensor of " + path("renamed.pt") + " not used: backbone." + first +
                      " [like " + first + " of the model]")));
}

TEST_F(TorchWeightsVerbs, NameThePrefixWithoutWhichNamesFit) {
  const TensorSource plain = open_torch_file(export_as("w.pt")).tensors;
  std::vector<NamedTensor> half, both;
  for (const TensorInfo& tensor : plain.tensors) {
    const Tensor content = plain.read(tensor.name);
    half.push_back(
        {(tensor.name.starts_with("layers.0") ? "backbone." : "") + tensor.name, content});
    for (const char* prefix : {"student.", "teacher."})
      both.push_back({prefix + tensor.name, content});
  }
  stream_torch_file(path("half.pt"), TensorSource::of(half)).value();
  stream_torch_file(path("both.pt"), TensorSource::of(both)).value();
  EXPECT_THAT(eval(path("half.pt")),
              HasSubstr("another model, but 2 names fit without the prefix 'backbone.' "
                        "(FILE#backbone. takes those): 2 missing"));
  const Ran ran = run_troupe({"train", options_, "-o", path("none"), "-r",
                              "model.weights=" + path("both.pt"), "-r", "model.strict=false"});
  EXPECT_THAT(ran.error, HasSubstr("none of its 8 tensors fits, but 4 names fit without the prefix "
                                   "that is one of 'student.', 'teacher.' (FILE#student. takes "
                                   "those): "));
  EXPECT_EQ(eval(path("both.pt") + "#teacher."), eval(path("w.pt")));
  EXPECT_THAT(run_troupe({"inspect", path("both.pt") + "#teacher."}).out,
              HasSubstr("weights: teacher.\n"));
}

TEST(TorchInspection, ListsTensorsAndOtherEntries) {
  const Ran ran = run_troupe({"inspect", golden("training.pt")});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("training.pt: PyTorch file; all checksums match\n"
                                       "weights: model_state_dict\n"
                                       "other entries: epoch, optimizer_state_dict\n"),
                             HasSubstr("bn.num_batches_tracked"), HasSubstr("fc.weight"),
                             HasSubstr("[2, 3]"), HasSubstr("7 tensors")));
  const Ran folder = run_troupe({"inspect", golden("distributed")});
  EXPECT_EQ(folder.code, exit_done) << folder.error;
  EXPECT_THAT(folder.out, AllOf(HasSubstr("distributed checkpoint of PyTorch"),
                                HasSubstr("weights: model\n"), HasSubstr("7 tensors")));
}

TEST(TorchInspection, SaysThatThereAreNoChecksums) {
  EXPECT_THAT(run_troupe({"inspect", golden("no_checksums.pt")}).out,
              HasSubstr("complete; it has no checksums\n"));
}

TEST(TorchInspection, GivesOneDigestForTheSameWeights) {
  const auto digest = [](const char* name) {
    const Ran ran = run_troupe({"inspect", "--digest", golden(name)});
    EXPECT_EQ(ran.code, exit_done) << ran.error;
    return ran.out;
  };
  for (const char* name : {"training.pt", "lightning.ckpt", "distributed", "no_checksums.pt"})
    EXPECT_EQ(digest(name), digest("state_dict.pt")) << name;
}

TEST(TorchInspection, TellsHowOtherFilesAreConverted) {
  const test::TemporaryFolder folder;
  for (const auto& [name, call] :
       {std::pair("legacy.pt", "torch.load(file"), std::pair("script.pt", "torch.jit.load(file")}) {
    const Ran ran = run_troupe({"inspect", golden(name)});
    EXPECT_EQ(ran.code, exit_failed);
    EXPECT_THAT(ran.error, AllOf(HasSubstr("python3 -c \"import sys, torch;"), HasSubstr(call),
                                 HasSubstr("\" " + golden(name))));
  }
  EXPECT_THAT(run_troupe({"inspect", golden("script.pt")}).error,
              HasSubstr("torch.export.save(torch.export.export("));
  EXPECT_THAT(run_troupe({"inspect", golden("module.pt")}).error,
              HasSubstr("torch.export.save(torch.export.export("));
}

TEST(ModelFiles, ThatHaveMovedAreGivenByTheirNewPath) {
  const test::TemporaryFolder folder;
  const std::string options = (folder / "o.yaml").string(), run = (folder / "run").string();
  const fs::path model = folder / "net.pt2", moved = folder / "moved.pt2";
  fs::copy_file(TROUPE_SOURCE_DIR "/tests/golden/graphs/vgg.pt2", model);
  test::write_text(options, "model: {file: " + model.string() +
                                "}\n"
                                "data: {name: synthetic, shape: [3, 20, 24], count: 8}\n"
                                "train: {steps: 1, batch_size: 4}\n");
  ASSERT_EQ(run_troupe({"train", options, "-o", run}).code, exit_done);
  fs::rename(model, moved);
  for (const auto& command :
       {std::vector<std::string>{"eval", run},
        std::vector<std::string>{"train", options, "-o", run, "--restart", "auto"}})
    EXPECT_THAT(run_troupe(command).error, HasSubstr("-r model.file=PATH"));
  EXPECT_EQ(run_troupe({"eval", run, "-r", "model.file=" + moved.string()}).code, exit_done);
}

// The command runs with a torch of the test's own, which tells what it is given.
TEST(TorchInspection, NamesACommandThatPythonRuns) {
  if (std::system("python3 -c '' 2>/dev/null") != 0) GTEST_SKIP() << "there is no python3";
  const test::TemporaryFolder folder;
  const std::string file = (folder / "it's $(touch here).pt").string();
  fs::copy_file(golden("legacy.pt"), file);
  std::ofstream(folder / "torch.py")
      << "def load(path, device, weights_only): return f'{path} {device} {weights_only}'\n"
         "def save(value, path): open(path, 'w').write(value)\n";
  const std::string error = run_troupe({"inspect", file}).error;
  const std::string line =
      "PYTHONPATH='" + folder.path().string() + "' " + error.substr(error.find("python3 -c"));
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  EXPECT_EQ(test::read_text(file + ".new.pt"), file + " cpu True");
}

}  // namespace
}  // namespace troupe
