// Runs with the model of a file, of which the file, the weights or the folder are not what they
// were: what the command says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/output/folder.h"
#include "runtime/file/zip.h"
#include "runtime/program.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/npy_text.h"
#include "tests/unit/runtime/file/support.h"
#include "tests/unit/runtime/file/zip_text.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// A copy of a .pt2 with another operator of the same shapes in place of the ReLU.
void write_without_relu(const std::filesystem::path& from, const std::filesystem::path& to) {
  const ZipArchive zip = ZipArchive::open(from);
  std::vector<test::MadeMember> members;
  for (const ZipMember& member : zip.members()) {
    std::string content(zip.content(member, UINT64_MAX).text());
    const std::string relu = "aten.relu.default", other = "aten.tanh.default";
    if (member.name.ends_with("models/model.json"))
      for (std::size_t at = 0; (at = content.find(relu, at)) != content.npos;)
        content.replace(at, relu.size(), other);
    members.push_back({.name = member.name, .content = std::move(content)});
  }
  test::write_text(to, test::zip_of(members));
}

class ResumedModels : public testing::Test {
 protected:
  ResumedModels() {
    constexpr std::size_t samples = 8, pixels = 3 * 20 * 24;
    test::write_text(path("x_train.npy"), test::npy_of("<f4", "(8, 3, 20, 24)",
                                                       std::vector<float>(samples * pixels, 0.5F)));
    test::write_text(
        path("y_train.npy"),
        test::npy_of("<i8", "(8,)", std::vector<std::int64_t>{0, 1, 2, 3, 0, 1, 2, 3}));
    std::filesystem::copy_file(TROUPE_SOURCE_DIR "/tests/golden/graphs/vgg.pt2", path("net.pt2"));
    write_without_relu(path("net.pt2"), path("other.pt2"));
    test::write_text(path("o.yaml"), "model: {file: " + path("net.pt2") +
                                         "}\n"
                                         "data: {name: npy, test_fraction: 0.25, path: " +
                                         path("") +
                                         "}\n"
                                         "train: {steps: 1, batch_size: 2, micro_batches: 1}\n");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Ran train(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"train", path("o.yaml"), "-o", path(output)};
    words.insert(words.end(), more.begin(), more.end());
    return run_troupe(words);
  }

  const test::TemporaryFolder folder_;
};

TEST_F(ResumedModels, RefuseAnotherGraphAndNameTheFileOfTheRun) {
  ASSERT_EQ(train("run").code, exit_done);
  const std::vector<std::string> resume = {"--restart", "auto", "-r", "train.steps=2"};
  std::vector<std::string> with_other = resume;
  with_other.insert(with_other.end(), {"-r", "model.file=" + path("other.pt2")});
  const Ran refused = train("run", with_other);
  EXPECT_EQ(refused.code, exit_usage);
  EXPECT_THAT(refused.error,
              AllOf(HasSubstr("the graph in '" + path("other.pt2") + "' has the digest"),
                    HasSubstr("the run began with another graph"),
                    HasSubstr("-r model.file=" + path("net.pt2"))));
  EXPECT_THAT(refused.out, Not(HasSubstr("output in")));
  with_other.insert(with_other.end(), {"-r", "model.file=" + path("net.pt2")});
  EXPECT_EQ(train("run", with_other).code, exit_done) << "the remedy works";
  std::filesystem::rename(path("other.pt2"), path("net.pt2"));
  with_other = resume;
  with_other.insert(with_other.end(), {"-r", "train.steps=3"});
  EXPECT_THAT(
      train("run", with_other).error,
      AllOf(HasSubstr("the run began with another graph"),
            HasSubstr("give the file that the run began with"), Not(HasSubstr("-r model.file"))));
}

TEST_F(ResumedModels, OfAnotherShapeNameTheFileOfTheWeights) {
  ASSERT_EQ(train("run").code, exit_done);
  const std::string vit = TROUPE_SOURCE_DIR "/tests/golden/graphs/vit.pt2";
  const Ran refused =
      train("new", {"-r", "model.file=" + vit, "-r", "model.weights=" + path("run")});
  EXPECT_THAT(refused.error,
              AllOf(HasSubstr("belong to another model"), HasSubstr("model.digest is"),
                    HasSubstr("try: -r model.file=" + path("net.pt2") +
                              ", or take what fits with -r model.strict=false")));
  EXPECT_THAT(refused.error, Not(HasSubstr("-r model.digest")));
}

TEST_F(ResumedModels, OfAnotherKindNameWhatTheRunHad) {
  const std::vector<std::string> mlp = {"-r", "model={name: mlp, widths: [4]}"};
  std::vector<std::string> resume = {"--restart", "auto", "-r", "train.steps=2"};
  ASSERT_EQ(train("mlp", mlp).code, exit_done);
  EXPECT_THAT(train("mlp", resume).error,
              AllOf(HasSubstr(": model.name is file now, was mlp: the weights belong to another"),
                    HasSubstr("try: -r model.name=mlp -r 'model.widths=[4]'")));
  ASSERT_EQ(train("run").code, exit_done);
  resume.insert(resume.end(), mlp.begin(), mlp.end());
  EXPECT_THAT(train("run", resume).error,
              AllOf(HasSubstr(": model.name is mlp now, was file: the weights belong to another"),
                    HasSubstr("try: -r model.file=" + path("net.pt2"))));
}

TEST_F(ResumedModels, SayThatTheFileOfWeightsIsNotRead) {
  ASSERT_EQ(train("run").code, exit_done);
  const std::vector<std::string> more = {
      "-r", "model.weights=none.pt", "-r", "train.steps=2", "--restart", "auto"};
  const Ran resumed = train("run", more);
  EXPECT_EQ(resumed.code, exit_done) << resumed.error;
  EXPECT_THAT(resumed.out, HasSubstr("model.weights none.pt is not read: "));
}

TEST_F(ResumedModels, WarnWhereANameTakesThePlaceOfTheFile) {
  const Ran ran = train("run", {"-r", "model={name: mlp, widths: [4]}"});
  EXPECT_EQ(ran.code, exit_done) << ran.error;
  EXPECT_THAT(ran.out + ran.error,
              HasSubstr("the model is mlp, so model.file, " + path("net.pt2") + ", has no effect"));
}

TEST_F(ResumedModels, OfADamagedFileAreRefusedBeforeTheRunHasAFolder) {
  std::string text = test::read_text(path("net.pt2"));
  text[text.find("data/weights/weight_0") + 256] ^= 1;
  test::write_text(path("net.pt2"), text);
  const Ran refused = train("run");
  EXPECT_EQ(refused.code, exit_failed);
  EXPECT_THAT(refused.error, AllOf(HasSubstr("model.file: "), HasSubstr("damaged")));
  EXPECT_EQ(refused.out, "");
  EXPECT_FALSE(std::filesystem::exists(path("run")));
}

TEST_F(ResumedModels, DoNotStartInAFolderOfAnotherProcess) {
  const OutputFolder other = OutputFolder::create(path("run"));
  const Ran refused = train("run", {"--restart", "auto"});
  EXPECT_THAT(refused.error, HasSubstr("another process trains into"));
  EXPECT_EQ(refused.out, "") << "nothing starts";
}

}  // namespace
}  // namespace troupe
