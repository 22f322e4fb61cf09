// Options that are refused before a run has a folder.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "apps/train/lead_run.h"
#include "runtime/file/zip.h"
#include "runtime/program.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Refusals : public testing::Test {
 protected:
  Refusals() {
    test::write_text(folder_ / "train.csv", "a,b,c\n1,2,0\n2,1,1\n3,2,0\n4,3,1\n");
    test::write_text(folder_ / "test.csv", "a,b,c\n1,2,0\n");
    test::write_text(folder_ / "csv.yaml",
                     fmt::format("model: {{name: mlp, widths: [4]}}\n"
                                 "data: {{name: csv, path: {}}}\n"
                                 "train: {{epochs: 1, batch_size: 2, micro_batches: 1}}\n",
                                 folder_.path().string()));
    test::write_text(folder_ / "images.yaml",
                     "model: {name: mlp, widths: [4]}\n"
                     "data: {name: synthetic, count: 64, shape: [1, 16, 16]}\n"
                     "train: {epochs: 1, batch_size: 32}\n");
  }
  /// What `troupe train` says of a file and a setting, both of which it refuses.
  std::string refusal(const std::string& file, const std::string& setting) {
    const auto out = folder_ / "out";
    const Ran ran =
        run_troupe({"train", (folder_ / file).string(), "-o", out.string(), "-r", setting});
    EXPECT_EQ(ran.code, exit_usage) << setting;
    EXPECT_FALSE(std::filesystem::exists(out)) << setting;
    return ran.error;
  }

  test::TemporaryFolder folder_;
};

TEST_F(Refusals, NameTheSettingAndLeaveNoFolder) {
  EXPECT_THAT(refusal("csv.yaml", "data.augment=[flip]"),
              AllOf(HasSubstr("override -r data.augment=[flip]: "), HasSubstr("data.augment")));
  EXPECT_THAT(refusal("csv.yaml", "data.cutmix_alpha=1"),
              HasSubstr("override -r data.cutmix_alpha=1: data.cutmix_alpha is 1, but a sample"));
  EXPECT_THAT(refusal("csv.yaml", "train.freeze=['nothing.*']"),
              HasSubstr("the frozen parameters [nothing.*]: no parameter of the model matches"));
  std::filesystem::remove(folder_ / "test.csv");
  EXPECT_THAT(refusal("csv.yaml", "train.evaluate=true"), HasSubstr("has no test samples"));
}

TEST_F(Refusals, OfARunWhoseDataHasMovedNameTheSetting) {
  const std::string run = (folder_ / "run").string();
  std::filesystem::create_directory(folder_ / "data");
  for (const char* name : {"train.csv", "test.csv"})
    std::filesystem::copy(folder_ / name, folder_ / "data" / name);
  const std::string path = (folder_ / "data").string();
  ASSERT_EQ(
      run_troupe({"train", (folder_ / "csv.yaml").string(), "-o", run, "-r", "data.path=" + path})
          .code,
      exit_done);
  std::filesystem::rename(path, path + ".moved");
  const Ran moved = run_troupe({"eval", run});
  EXPECT_EQ(moved.code, exit_usage);
  EXPECT_THAT(moved.error, AllOf(HasSubstr("data.path is " + path + ", which does not exist"),
                                 HasSubstr("try: set data.path to a CSV file")));
  EXPECT_EQ(run_troupe({"eval", run, "-r", "data.path=" + path + ".moved"}).code, exit_done)
      << "the remedy works";
}

TEST_F(Refusals, OfDamagedFilesAreFailuresThatNameTheOption) {
  const auto cut = [&](const std::string& from) {
    const auto path = folder_ / std::filesystem::path(from).filename();
    const std::string whole =
        test::read_text(std::string(TROUPE_SOURCE_DIR "/tests/golden/") + from);
    test::write_text(path, whole.substr(0, whole.size() / 2));
    return path.string();
  };
  const std::string graph = cut("graphs/resnet18.pt2"), arrays = cut("arrays/stored.npz"),
                    weights = cut("torch/state_dict.pt");
  for (const auto& [option, words] :
       {std::pair("model.file=" + graph, "override -r model.file=" + graph + ": "),
        std::pair("data={name: npz, path: " + arrays + "}", std::string("data.path: ")),
        std::pair("model.weights=" + weights, std::string("model.weights: "))}) {
    const Ran ran = run_troupe({"train", (folder_ / "images.yaml").string(), "-r", option, "-o",
                                (folder_ / "out").string()});
    EXPECT_EQ(ran.code, exit_failed) << option;
    EXPECT_THAT(ran.error, HasSubstr("error: " + words));
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out")) << option;
  }
}

TEST_F(Refusals, OfModelsThatTroupeCannotRunAreFailures) {
  const auto path = folder_ / "net.pt2";
  const ZipArchive zip = ZipArchive::open(TROUPE_SOURCE_DIR "/tests/golden/graphs/vgg.pt2");
  std::vector<test::MadeMember> members;
  for (const ZipMember& member : zip.members()) {
    std::string content(zip.content(member, UINT64_MAX).text());
    for (std::size_t at = 0; (at = content.find("aten.relu", at)) != content.npos;)
      content.replace(at, 9, "aten.gelo");
    members.push_back({.name = member.name, .content = content});
  }
  test::write_text(path, test::zip_of(members));
  const Ran ran =
      run_troupe({"train", (folder_ / "images.yaml").string(), "-o", (folder_ / "out").string(),
                  "-r", "data.shape=[3, 20, 24]", "-r", "model.file=" + path.string()});
  EXPECT_EQ(ran.code, exit_failed);
  EXPECT_THAT(ran.error,
              AllOf(HasSubstr("override -r model.file="), HasSubstr("the operator gelo.default")));
  test::write_text(folder_ / "net.yaml",
                   fmt::format("model: {{file: {}}}\ndata: {{name: synthetic, count: 64}}\n"
                               "train: {{epochs: 1, batch_size: 32}}\n",
                               path.string()));
  const Ran of_the_file = run_troupe({"train", (folder_ / "net.yaml").string(), "-o",
                                      (folder_ / "out").string(), "-r", "data.shape=[3, 20, 24]"});
  EXPECT_EQ(of_the_file.code, exit_failed);
  EXPECT_THAT(of_the_file.error, AllOf(HasSubstr("net.yaml:1:"), Not(HasSubstr("override -r"))));
}

TEST_F(Refusals, OfALossNameTheOverrideThatChoseOtherTargets) {
  test::write_text(folder_ / "net.yaml",
                   "model: {name: mlp, widths: [4]}\n"
                   "data: {name: synthetic, shape: [1, 4, 4], count: 16}\n"
                   "train: {loss: cross_entropy, batch_size: 2, micro_batches: 1}\n");
  test::write_text(folder_ / "numbers.csv", "a,y\n1,0.5\n2,1.5\n");
  const auto said = [&](const std::string& name) {
    const Ran ran = run_troupe({"train", (folder_ / name).string(), "-r", "data.name=csv", "-r",
                                "data.path=" + (folder_ / "numbers.csv").string()});
    EXPECT_EQ(ran.code, exit_usage);
    return ran.error;
  };
  EXPECT_THAT(said("net.yaml"), HasSubstr("error: override -r data.name=csv: train.loss is"));
  test::write_text(folder_ / "file.yaml", "model: {file: " TROUPE_SOURCE_DIR
                                          "/tests/golden/graphs/vgg.pt2}\n"
                                          "data: {name: synthetic, shape: [3, 20, 24]}\n"
                                          "train: {batch_size: 2, micro_batches: 1}\n");
  EXPECT_THAT(said("file.yaml"), HasSubstr("error: override -r data.name=csv: train.loss is"));
}

TEST_F(Refusals, SuggestAModelForTheSizeOfImages) {
  EXPECT_THAT(
      refusal("images.yaml", "model={name: wide_resnet, widths: []}"),
      HasSubstr("use another model, such as mnist_cnn, or images of 28 to 55 pixels a side"));
}

TEST_F(Refusals, NameWhatExceedsTheMemory) {
  EXPECT_THAT(refusal("images.yaml", "model.widths=[1000000, 1000000]"),
              AllOf(HasSubstr("the parameter layers.1.weight has the shape [1000000, 1000000] and "
                              "needs 3725.3 GiB, more than the memory"),
                    HasSubstr("try: lower model.widths or data.shape")));
  EXPECT_THAT(refusal("csv.yaml", "train.batch_size=5"),
              HasSubstr("train.batch_size is 5, more than the 4 training samples"));
}

TEST(RequestToStop, BeforeTheRunIsAnswered) {
  EXPECT_EXIT(stop_before_the_run(), testing::ExitedWithCode(exit_stopped),
              "stopped before the run began");
}

}  // namespace
}  // namespace troupe
