// What a resumed run knows of the evaluations before its checkpoint, in its own folder and in
// others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "runtime/program.h"
#include "tests/unit/apps/ran.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Eight epochs of ten steps. The rate falls after each evaluation but the first.
class ResumedEvaluations : public testing::Test {
 protected:
  ResumedEvaluations() {
    test::write_text(path("o.yaml"),
                     "model: {name: mlp, widths: [16, 8]}\n"
                     "data: {name: synthetic, shape: [1, 8, 8], classes: 4, count: 640}\n"
                     "train: {epochs: 8, batch_size: 64, micro_batches: 2, lr: 0.5, "
                     "schedule: plateau, plateau_patience: 0, min_delta: 10}\n"
                     "log: {every_steps: 5}\n"
                     "checkpoint: {keep: 0}\n");
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Ran train(const std::string& output, int steps, const std::string& restart = "") const {
    std::vector<std::string> words = {
        "train", path("o.yaml"), "-o", path(output), "-r", "train.steps=" + std::to_string(steps)};
    if (!restart.empty()) words.insert(words.end(), {"--restart", path(restart)});
    const Ran ran = run_troupe(words);
    EXPECT_EQ(ran.code, exit_done) << ran.error;
    return ran;
  }
  /// The rows of a train.csv without the columns of speed and time.
  std::string rows(const std::string& output) const {
    std::istringstream lines(test::read_text(folder_ / output / "train.csv"));
    std::string found;
    for (std::string line; std::getline(lines, line); found += '\n') {
      std::istringstream cells(line);
      std::string cell;
      for (int column = 0; std::getline(cells, cell, ','); ++column)
        if (column != 4 && column != 6) found += cell + ',';
    }
    return found;
  }

  test::TemporaryFolder folder_;
};

TEST_F(ResumedEvaluations, AreKeptFromFolderToFolder) {
  (void)train("whole", 80);
  (void)train("first", 30);
  (void)train("second", 50, "first/checkpoints/step_00000030/");  // as a shell completes it
  std::filesystem::create_directory_symlink(folder_ / "second/checkpoints/step_00000050",
                                            folder_ / "latest");
  EXPECT_THAT(train("third", 80, "latest").out, Not(HasSubstr("warning")));
  EXPECT_EQ(rows("third"), rows("whole"));
}

TEST_F(ResumedEvaluations, AreMadeUpForInAnotherFolder) {
  (void)train("whole", 40);
  (void)train("first", 20);
  std::string cut = test::read_text(folder_ / "first/train.csv");
  cut.erase(cut.find(',', cut.rfind("\n20,")));  // keeps the step alone
  std::string last = test::read_text(folder_ / "first/train.csv").substr(cut.size());
  for (int column = 0; column < 4; ++column) last.erase(last.rfind(','));
  test::write_text(folder_ / "first/train.csv", cut + last + ",,,,\n");
  EXPECT_THAT(train("second", 40, "first/checkpoints/step_00000020").out,
              Not(HasSubstr("warning")));
  EXPECT_EQ(rows("second"), rows("whole"));
}

TEST_F(ResumedEvaluations, ThatAreMissingAreCounted) {
  (void)train("first", 30);
  const std::filesystem::path csv = folder_ / "first/train.csv";
  std::string text = test::read_text(csv);
  text.erase(text.find("\n10,"), text.find("\n20,") - text.find("\n10,"));
  test::write_text(csv, text);
  EXPECT_THAT(train("second", 40, "first").out,
              AllOf(HasSubstr("warning: 1 evaluation before step 30 is not in"),
                    HasSubstr("first/train.csv: train.patience, train.schedule plateau and "
                              "checkpoint.keep_best continue without it")));
  std::filesystem::rename(csv, folder_ / "moved.csv");
  EXPECT_THAT(train("third", 40, "first/checkpoints/step_00000030").out,
              HasSubstr("warning: 3 evaluations before step 30 are not in"));
}

}  // namespace
}  // namespace troupe
