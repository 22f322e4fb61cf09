// What a run has reported is in its files when it is awaited.
#include "apps/train/run_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <thread>

#include "tests/unit/runtime/file/support.h"

namespace troupe {
namespace {

std::ptrdiff_t rows_of(const OutputFolder& folder) {
  const std::string csv = test::read_text(folder.csv());
  return std::count(csv.begin(), csv.end(), '\n') - 1;  // the row of names
}

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

// A checkpoint that outlives a kill must not lack the rows before it.
TEST(RunLog, HaveTheRowsThatAreAwaited) {
  constexpr std::uint32_t steps = 400;
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  RunLog log(folder, {.steps = steps, .steps_per_epoch = steps}, {});
  log.await_rows(0);
  const std::jthread monitor([&] {
    for (std::uint32_t step = 1; step <= steps; ++step)
      log.step({.step = step, .samples = 1, .duration = std::chrono::milliseconds(1)});
  });
  for (std::uint32_t step = 50; step <= steps; step += 50) {
    log.await_rows(step, std::chrono::minutes(1));
    EXPECT_GE(rows_of(folder), step);
  }
}

TEST(RunLog, HaveTheMeanOfTheStepsOfARow) {
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  {
    RunLog log(folder, {.steps = 8, .steps_per_epoch = 8, .evaluates = false}, {}, 4);
    for (std::uint32_t step = 1; step <= 8; ++step)
      log.step({.step = step,
                .loss = static_cast<double>(step),
                .accuracy = step < 5 ? 0.5 : 0.25,
                .samples = step == 4 ? 1 : 2,
                .duration = std::chrono::seconds(1)});
    log.finish();
  }
  // (2 * 1 + 2 * 2 + 2 * 3 + 4) / 7, and (5 + 6 + 7 + 8) / 4.
  EXPECT_THAT(test::read_text(folder.csv()), testing::AllOf(testing::HasSubstr("\n4,1,2.2857142"),
                                                            testing::HasSubstr("\n8,1,6.5,")));
}

TEST(RunLog, NameALossThatIsNoNumberWithoutASign) {
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  {
    RunLog log(folder, {.steps = 1, .steps_per_epoch = 1, .evaluates = false}, {});
    log.step({.step = 1, .loss = -std::nan(""), .samples = 1, .duration = std::chrono::seconds(1)});
    log.finish();
  }
  EXPECT_THAT(test::read_text(folder.csv()), testing::HasSubstr("\n1,1,nan,"));
  EXPECT_THAT(test::read_text(folder.log()), testing::Not(testing::HasSubstr("-nan")));
}

TEST(RunLog, TellThatTheirRowsAreLostWithTheFolder) {
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  {
    RunLog log(folder, {.steps = 8, .steps_per_epoch = 8, .evaluates = false}, {});
    std::filesystem::remove_all(root / "out");
    log.step({.step = 1, .samples = 1, .duration = std::chrono::seconds(1)});
    log.finish();
  }
  EXPECT_THAT(testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr(),
              testing::HasSubstr("train.csv could not be written"));
}

TEST(RunLog, TellHowFarAnEpochCameThatIsNotWhole) {
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  {
    RunLog log(folder, {.steps = 40, .steps_per_epoch = 20, .evaluates = false}, {});
    for (std::uint32_t step = 1; step <= 23; ++step)
      log.step({.step = step,
                .loss = step <= 20 ? 2.0F : 0.5F,
                .samples = 1,
                .duration = std::chrono::milliseconds(1)});
    log.finish();
    log.finish();  // as where a run fails while it is concluded
  }
  const std::string written = test::read_text(folder.log());
  EXPECT_THAT(written, testing::ContainsRegex("Epoch 2/2: .*Loss=0.5000, .*train, 3 of 20 steps"));
  EXPECT_EQ(count_of(written, "3 of 20"), 1) << written;
}

TEST(RunLog, ShowTheFirstSkippedStepThenTheirNumberInAnEpoch) {
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  testing::internal::CaptureStdout();
  {
    RunLog log(folder, {.steps = 12, .steps_per_epoch = 4, .evaluates = false}, {}, 1, {}, {},
               images_unit, true);
    double scale = 1 << 24;
    for (std::uint32_t step = 1; step <= 12; ++step) {
      const bool skipped = step <= 3 || step == 10;
      log.step({.step = step,
                .samples = 1,
                .duration = std::chrono::milliseconds(1),
                .loss_scale = scale,
                .skipped = skipped});
      if (skipped) scale /= 2;
    }
    log.finish();
    EXPECT_EQ(log.totals().skipped_steps, 4);
    EXPECT_EQ(log.totals().loss_scale, 1 << 20);
  }
  const std::string shown = testing::internal::GetCapturedStdout();
  const std::string written = test::read_text(folder.log());
  EXPECT_EQ(count_of(shown, "was skipped"), 1) << shown;
  EXPECT_THAT(shown, testing::HasSubstr("step 1 was skipped: its gradient is not finite with the "
                                        "loss scale 16777216; if many of a new run are, lower "
                                        "loss_scale.init_scale\n"));
  EXPECT_THAT(shown, testing::HasSubstr("epoch 1: 3 of 4 steps skipped; the loss scale was 2097152 "
                                        "in the last one\n"));
  EXPECT_THAT(shown, testing::HasSubstr("epoch 3: 1 of 4 steps skipped"));
  EXPECT_EQ(count_of(shown, "skipped; the"), 2) << shown;
  EXPECT_EQ(count_of(written, "was skipped"), 4) << written;
  EXPECT_THAT(test::read_text(folder.csv()), testing::HasSubstr(",4194304,1,,,,\n"));
  EXPECT_THAT(test::read_text(folder.csv()), testing::HasSubstr(",2097152,0,,,,\n"));
}

TEST(RunLog, CountSkippedStepsInEachRow) {
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  {
    RunLog log(folder, {.steps = 6, .steps_per_epoch = 6, .evaluates = false}, {}, 3, {}, {},
               images_unit, true);
    for (std::uint32_t step = 1; step <= 6; ++step)
      log.step({.step = step,
                .samples = 1,
                .duration = std::chrono::milliseconds(1),
                .loss_scale = 8,
                .skipped = step == 2 || step == 3});
    log.finish();
  }
  EXPECT_THAT(test::read_text(folder.csv()),
              testing::AllOf(testing::ContainsRegex("\n3,1,.*,8,2,,,,\n"),
                             testing::ContainsRegex("\n6,1,.*,8,0,,,,\n")));
}

TEST(RunLog, AnnounceAnEvaluationThatIsDueOnceAndAfterAStopOnly) {
  for (const bool stopped : {false, true}) {
    const test::TemporaryFolder root;
    const auto folder = OutputFolder::create(root / "out");
    {
      RunLog log(folder, {.steps = 40, .steps_per_epoch = 1}, {});
      log.step({.step = 1, .loss = 0.5, .samples = 1, .duration = std::chrono::milliseconds(1)});
      log.finish(stopped);
      log.finish();  // as where the run's last checkpoint has failed
    }
    const std::string written = test::read_text(folder.log());
    EXPECT_EQ(count_of(written, "Epoch 1/40: "), 1) << written;
    EXPECT_EQ(count_of(written, "evaluation that is due"), stopped ? 1 : 0) << written;
  }
}

TEST(RunLog, HaveWarningsAtTheirLevel) {
  const test::TemporaryFolder root;
  const auto folder = OutputFolder::create(root / "out");
  {
    RunLog log(folder, {.steps = 1, .steps_per_epoch = 1}, {});
    testing::internal::CaptureStderr();
    testing::internal::CaptureStdout();
    log.warn("this is odd");
    log.finish();
  }
  const std::string shown =
      testing::internal::GetCapturedStdout() + testing::internal::GetCapturedStderr();
  EXPECT_THAT(shown, testing::HasSubstr("warning: this is odd"));
  EXPECT_THAT(test::read_text(folder.log()), testing::HasSubstr(" warning this is odd\n"));
}

}  // namespace
}  // namespace troupe
