// CIFAR from each of its forms, through the command's own entry.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/actors/data/cifar_text.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;

class CifarTraining : public testing::TestWithParam<int> {
 protected:
  CifarTraining() {
    test::write_text(folder_ / "o.yaml",
                     fmt::format("model: {{name: mlp, widths: [4], classes: {0}}}\n"
                                 "data: {{name: cifar{0}, augment: [flip, crop], "
                                 "mean: [0.5, 0.5, 0.4], std: [0.2, 0.2, 0.3]}}\n"
                                 "train: {{batch_size: 20, epochs: 2}}\n"
                                 "checkpoint: {{every_steps: 2, keep: 0}}\n",
                                 GetParam()));
    for (const bool is_pickle : {false, true}) {
      const test::CifarFolder content = test::cifar_folder(GetParam(), is_pickle, 6);
      content.write(folder_.path());
      paths_.push_back(folder_ / content.name);
      test::write_text(folder_ / (content.name + ".tar.gz"), content.archive());
      paths_.push_back(folder_ / (content.name + ".tar.gz"));
    }
  }

  std::string out(std::size_t form) const {
    return (folder_ / fmt::format("out{}", form)).string();
  }
  Ran train(std::size_t form, std::vector<std::string> more) const {
    std::vector<std::string> words{"train", (folder_ / "o.yaml").string(), "-r",
                                   "data.path=" + paths_[form].string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_troupe(words);
  }
  static std::string digest(const std::string& run) {
    return run_troupe({"inspect", "--digest", run}).out;
  }

  const test::TemporaryFolder folder_;
  std::vector<fs::path> paths_;
};

TEST_P(CifarTraining, GivesTheSameWeightsFromEachForm) {
  for (std::size_t form = 0; form < paths_.size(); ++form) {
    SCOPED_TRACE(paths_[form]);
    const Ran ran = train(form, {"-o", out(form)});
    EXPECT_EQ(ran.code, exit_done) << ran.error;
    EXPECT_THAT(ran.out, testing::HasSubstr("/12)"));
    EXPECT_EQ(digest(out(form)), digest(out(0)));
  }
}

TEST_P(CifarTraining, IsResumedFromAnotherForm) {
  EXPECT_EQ(train(0, {"-o", out(0)}).code, exit_done);
  const Ran stopped = train(1, {"-o", out(1), "-r", "train.steps=2"});
  EXPECT_EQ(stopped.code, exit_done) << stopped.error;
  EXPECT_NE(digest(out(1)), digest(out(0)));
  const Ran resumed = train(2, {"-o", out(1), "--restart", "auto"});
  EXPECT_EQ(resumed.code, exit_done) << resumed.error;
  EXPECT_EQ(digest(out(1)), digest(out(0)));
}

INSTANTIATE_TEST_SUITE_P(Classes, CifarTraining, testing::Values(10, 100));

}  // namespace
}  // namespace troupe
