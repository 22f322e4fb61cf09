// A checkpoint that an earlier version wrote, with the keys of its time: parallel.cut and
// model.in_channels. `troupe train` made it: mlp with widths [4], synthetic samples, 4 steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/system/process.h"
#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class FormerCheckpoint : public testing::Test {
 protected:
  FormerCheckpoint() {
    fs::copy(TROUPE_SOURCE_DIR "/tests/golden/checkpoint_of_format_1", run_ / "checkpoints",
             fs::copy_options::recursive);
  }
  static Outcome command(std::vector<std::string> words) {
    words.insert(words.begin(), TROUPE_BINARY);
    return run_process(words);
  }
  test::TemporaryFolder folder_;
  fs::path run_ = folder_.path();
  std::string checkpoint_ = (run_ / "checkpoints" / "step_00000004").string();
};

TEST_F(FormerCheckpoint, HasItsDigest) {
  const Outcome ran = command({"inspect", "--digest", checkpoint_});
  EXPECT_EQ(ran.out, "5bcbb917dadee5aa008fd2963553a305048ea5935e40f56a127aa02fadfbed58\n");
}

TEST_F(FormerCheckpoint, IsEvaluated) {
  const Outcome ran = command({"eval", checkpoint_});
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr("test accuracy 0.2857 (12/42)"));
}

TEST_F(FormerCheckpoint, IsResumedWithAnyPartition) {
  test::write_text(run_ / "o.yaml",
                   "model: {name: mlp, in_channels: 1, widths: [4]}\n"
                   "data: {name: synthetic, count: 256}\n"
                   "train: {epochs: 1, steps: 6, batch_size: 32, micro_batches: 2, lr: 0.05, "
                   "evaluate: false}\n"
                   "parallel: {pipeline: 3, cut: [1, 1, 1]}\n");
  const Outcome ran =
      command({"train", (run_ / "o.yaml").string(), "-o", run_.string(), "--restart", checkpoint_});
  EXPECT_EQ(ran.exit_code, 0) << ran.error;
  EXPECT_THAT(ran.out, HasSubstr("at step 4 of 6"));
}

}  // namespace
}  // namespace troupe
