// Models that PyTorch has exported, through the command: train, several processes, resumption,
// export, inspect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/system/process.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

const fs::path graphs = fs::path(TROUPE_SOURCE_DIR) / "tests/golden/graphs";

constexpr auto recipe = R"(
seed: 5
data: {name: synthetic, shape: [3, 20, 24], classes: 4, count: 64, mean: [0.5], std: [0.25]}
train: {epochs: 1, batch_size: 16, micro_batches: 4, lr: 0.01}
parallel: {actor_threads: 1, intra_op_threads: 1}
checkpoint: {every_steps: 2, keep: 0}
model:
  file: net.pt2
)";

class FileModel : public testing::Test {
 protected:
  FileModel() {
    std::string pattern = (fs::temp_directory_path() / "troupe_file_model_XXXXXX").string();
    root_ = ::mkdtemp(pattern.data());
    std::ofstream(root_ / "options.yaml") << recipe;
    fs::copy(graphs / "vit.pt2", root_ / "net.pt2");
  }
  ~FileModel() override { fs::remove_all(root_); }

  Outcome command(std::vector<std::string> words) const {
    words.insert(words.begin(), TROUPE_BINARY);
    return run_process(words, root_.string());
  }
  Outcome train(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"train", "options.yaml", "-o", output};
    words.insert(words.end(), more.begin(), more.end());
    return command(words);
  }
  std::string digest(const std::string& output) const {
    return digest_in(command({"inspect", "--digest", output}));
  }

  fs::path root_;
};

TEST_F(FileModel, TrainsToTheSameBitsInStagesAndInSeveralProcesses) {
  ASSERT_EQ(train("whole").exit_code, 0);
  const std::string whole = digest("whole");
  ASSERT_EQ(train("stages", {"-r", "parallel.pipeline=3"}).exit_code, 0);
  EXPECT_EQ(digest("stages"), whole);
  const Outcome launched =
      command({"launch", "--nproc-per-node=2", "--", "train", "options.yaml", "-o", "processes",
               "-r", "parallel.pipeline=2", "-r", "parallel.data=2"});
  ASSERT_EQ(launched.exit_code, 0) << launched.error;
  EXPECT_EQ(digest("processes"), whole);
}

TEST_F(FileModel, IsResumedWithItsOwnFileAlone) {
  ASSERT_EQ(train("whole").exit_code, 0);
  ASSERT_EQ(train("part", {"-r", "train.steps=2"}).exit_code, 0);
  const Outcome resumed = train("part", {"--restart", "auto"});
  ASSERT_EQ(resumed.exit_code, 0) << resumed.error;
  EXPECT_EQ(digest("part"), digest("whole"));
  ASSERT_EQ(train("other", {"-r", "train.steps=2"}).exit_code, 0);
  fs::copy(graphs / "vgg.pt2", root_ / "net.pt2", fs::copy_options::overwrite_existing);
  const Outcome refused = train("other", {"--restart", "auto"});
  EXPECT_NE(refused.exit_code, 0);
  EXPECT_THAT(refused.error, HasSubstr("the run began with another graph"));
}

TEST_F(FileModel, IsPlannedEvaluatedAndExported) {
  EXPECT_THAT(command({"plan", "options.yaml", "-r", "parallel.pipeline=2"}).out,
              HasSubstr("encoder.0.attention"));
  ASSERT_EQ(train("run").exit_code, 0);
  EXPECT_THAT(command({"eval", "run"}).out, HasSubstr("test loss"));
  const Outcome exported = command({"export", "run", "-o", "out.safetensors"});
  ASSERT_EQ(exported.exit_code, 0) << exported.error;
  const Outcome content = command({"inspect", "out.safetensors"});
  for (const char* name : {"token", "positions", "encoder.1.mlp.2.bias", "head.weight"})
    EXPECT_THAT(content.out, HasSubstr(name));
  EXPECT_EQ(train("again", {"-r", "model.weights=out.safetensors"}).exit_code, 0);
}

TEST_F(FileModel, IsChosenByItsFileAndByNoOtherName) {
  const Outcome named = train("run", {"-r", "model.file=net.pt2", "-r", "model.name=resnet18"});
  EXPECT_EQ(named.exit_code, 2);
  EXPECT_THAT(named.error, AllOf(HasSubstr("model.file is net.pt2"), HasSubstr("resnet18")));
  const Outcome lacking = train("run", {"-r", "model.file=none.pt2"});
  EXPECT_NE(lacking.exit_code, 0);
  EXPECT_THAT(lacking.error, HasSubstr("none.pt2"));
  const Outcome shape = train("run", {"-r", "data.shape=[1,28,28]"});
  EXPECT_EQ(shape.exit_code, 2);
  EXPECT_THAT(shape.error, AllOf(HasSubstr("[3, 20, 24]"), HasSubstr("[1, 28, 28]")));
}

TEST_F(FileModel, TrainsFromAnOnnxFileInSeveralProcesses) {
  fs::copy(graphs / "vit.onnx", root_ / "net.onnx");
  const std::vector<std::string> onnx{"-r", "model.file=net.onnx"};
  ASSERT_EQ(train("whole", onnx).exit_code, 0);
  const Outcome launched =
      command({"launch", "--nproc-per-node=2", "--", "train", "options.yaml", "-o", "processes",
               "-r", "model.file=net.onnx", "-r", "parallel.pipeline=2", "-r", "parallel.data=2"});
  ASSERT_EQ(launched.exit_code, 0) << launched.error;
  EXPECT_EQ(digest("processes"), digest("whole"));
  const Outcome exported = command({"export", "processes", "-o", "out.safetensors"});
  ASSERT_EQ(exported.exit_code, 0) << exported.error;
  EXPECT_THAT(command({"inspect", "out.safetensors"}).out, HasSubstr("encoder.1.mlp.2.bias"));
}

TEST_F(FileModel, IsListedByInspect) {
  const Outcome outcome = command({"inspect", "net.pt2"});
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("[batch, 3, 20, 24] to [batch, 10]"), HasSubstr("encoder.0.mlp"),
                    HasSubstr("attention"), HasSubstr("positions")));
}

}  // namespace
}  // namespace troupe
