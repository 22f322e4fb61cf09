// What a run shows: lines of epochs, the progress bar, plain lines.
#include "apps/output/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "apps/output/report.h"
#include "tests/unit/apps/step_report.h"

namespace troupe {
namespace {

using std::chrono::seconds;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(Report, EpochLinesSayWhoseFiguresTheyShow) {
  EpochReport report{.epoch = 1,
                     .epochs_total = 2,
                     .step = 937,
                     .time = std::chrono::milliseconds(9819),
                     .loss = 1.6997,
                     .accuracy = 0.6386,
                     .images_per_second = 5084.2,
                     .evaluation = std::nullopt};
  EXPECT_EQ(
      epoch_line(report),
      "Epoch 1/2: Time=9.819s, Loss=1.6997, Accuracy=0.6386, Throughput=5084.2 img/s (train)");
  report.evaluation = Evaluation{.loss = 0.25, .correct = 9131, .count = 10000};
  EXPECT_EQ(epoch_line(report),
            "Epoch 1/2: Time=9.819s, Loss=0.2500, Accuracy=0.9131, Throughput=5084.2 img/s "
            "(test; train loss 1.6997, accuracy 0.6386)");
  EXPECT_EQ(result_line(*report.evaluation), "test accuracy 0.9131 (9131/10000)");
  const TrainingTotals totals{.time = std::chrono::duration<double>(20), .samples = 100'000};
  EXPECT_EQ(completion_lines(totals, report.evaluation),
            "Training complete. Final Accuracy: 0.9131\n"
            "Total Time: 20.0s, Throughput: 5000.0 img/s");
  EXPECT_EQ(completion_lines({}, {}), "Training complete.");
  EXPECT_EQ(completion_lines({.time = std::chrono::duration<double>(20),
                              .samples = 100'000,
                              .skipped_steps = 3,
                              .loss_scale = 8192},
                             {}),
            "Training complete.\n"
            "Total Time: 20.0s, Throughput: 5000.0 img/s\n"
            "Skipped Steps: 3, Loss Scale: 8192");
}

TEST(Report, LossesThatDivergeStayShort) {
  EXPECT_EQ(loss_number(0.23414), "0.2341");
  EXPECT_EQ(loss_number(12345.67), "12345.6700");
  EXPECT_EQ(loss_number(5998966642819086651781103484928.0), "5.999e+30");
  EXPECT_EQ(loss_number(std::nan("")), "nan");
  const EpochReport report{.epoch = 1, .epochs_total = 2, .loss = 6e30, .accuracy = std::nullopt};
  EXPECT_EQ(epoch_line(report), "Epoch 1/2: Loss=6.000e+30 (train)");
}

TEST(Report, EpochLinesLeaveOutTimesOfAnotherProcess) {
  EpochReport report{.epoch = 1, .epochs_total = 2, .step = 937, .loss = 0.5, .accuracy = 0.25};
  EXPECT_EQ(epoch_line(report), "Epoch 1/2: Loss=0.5000, Accuracy=0.2500 (train)");
}

TEST(Report, EpochLinesTellPartsOfAnEpoch) {
  EpochReport report{.epoch = 1,
                     .epochs_total = 2,
                     .step = 100,
                     .steps = 15,
                     .epoch_steps = 100,
                     .time = std::chrono::seconds(1)};
  EXPECT_THAT(epoch_line(report), EndsWith(" (train, 15 of 100 steps)"));
  report.evaluation = Evaluation{.loss = 0.25, .correct = 9131, .count = 10000};
  EXPECT_THAT(epoch_line(report), EndsWith(", 15 of 100 steps)"));
}

TEST(Report, DurationsReadLikeSpeech) {
  EXPECT_EQ(duration_text(seconds(42)), "42s");
  EXPECT_EQ(duration_text(seconds(187)), "3m07s");
  EXPECT_EQ(duration_text(seconds(7500)), "2h05m");
  EXPECT_EQ(duration_text(seconds(4 * 86400 + 3 * 3600)), "4d03h");
  EXPECT_EQ(duration_text(seconds(-1)), "?");
  EXPECT_EQ(duration_text(std::chrono::duration<double>(1e300)), "?");
}

TEST(ProgressBar, ReachesAHundredPercentWithTheLastStep) {
  StepReport report = step_report(0);
  for (report.step = 0; report.step <= report.steps_total; ++report.step)
    EXPECT_THAT(progress_bar(report, {}, 80),
                StartsWith(fmt::format("{:3}% ", 100 * report.step / report.steps_total)));
  report = step_report(999);
  report.steps_total = 1000;
  EXPECT_THAT(progress_bar(report, {}, 80), StartsWith(" 99% "));
}

TEST(ProgressBar, FitsEveryWidthAndDropsItsPartsFirst) {
  for (int width = 0; width < 200; ++width)
    EXPECT_LE(progress_bar(step_report(50), seconds(90), width).size(),
              static_cast<std::size_t>(std::max(width - 3, 0)));  // ^C and a free column
  EXPECT_THAT(
      progress_bar(step_report(50), seconds(90), 120),
      testing::AllOf(StartsWith(" 50% [####"), HasSubstr("1m30s to go"), HasSubstr("loss 0.3333"),
                     HasSubstr("step  50/100"), EndsWith("epoch 1/2")));
  EXPECT_THAT(
      progress_bar(step_report(50), seconds(90), 80),
      testing::AllOf(HasSubstr("step  50/100"), HasSubstr("loss"), Not(HasSubstr("img/s"))));
  EXPECT_THAT(progress_bar(step_report(50), seconds(90), 60),
              testing::AllOf(HasSubstr("loss"), HasSubstr("step  50"), Not(HasSubstr("accuracy"))));
  EXPECT_THAT(progress_bar(step_report(50), seconds(90), 60, EvaluationProgress{{}, 512, 10000}),
              HasSubstr("evaluating   512/10000"));
  EXPECT_THAT(progress_bar(step_report(50), seconds(90), 40),
              testing::AllOf(HasSubstr("to go"), Not(HasSubstr("loss"))));
  EXPECT_THAT(progress_bar(step_report(100), seconds(0), 80), Not(HasSubstr(".]")));
}

/// What Progress writes for some steps a second apart.
std::string shown(const ProgressStyle& style, int steps, int seconds_a_step) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  Progress::Clock::time_point now{};
  {
    Progress progress(out, style, now);
    for (int step = 1; step <= steps; ++step)
      progress.step(step_report(step), now += seconds(seconds_a_step));
    progress.epoch({.epoch = 1, .epochs_total = 1});
    progress.line("a line");
    progress.finish();
  }
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(Progress, CountsTheTimeToGoFromWhereTheRunWentOn) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  Progress::Clock::time_point now{};
  Progress progress(out, {}, now, step_report(50));
  for (int step = 51; step <= 55; ++step) progress.step(step_report(step), now += seconds(1));
  std::fclose(out);
  EXPECT_THAT(std::string(text, size), HasSubstr("step  55/100"));
  EXPECT_THAT(std::string(text, size), HasSubstr("45s to go"));
  std::free(text);
}

TEST(Progress, WritesAPlainLineEveryFewSecondsWithoutATerminal) {
  const std::string text = shown({}, 12, 1);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\r")));
  EXPECT_THAT(text, StartsWith("step   5/100  epoch 1/2  loss 0.3333"));
  EXPECT_THAT(text, HasSubstr("1m35s to go\n"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4);
  EXPECT_THAT(text, EndsWith("\na line\n"));
}

TEST(Progress, RedrawsOneLineOnATerminalAndClearsItForLinesThatStay) {
  const std::string text = shown({.terminal = true, .color = false, .width = 60}, 3, 1);
  EXPECT_THAT(text, HasSubstr("\r\x1b[2K  3% ["));
  EXPECT_THAT(text, HasSubstr("\r\x1b[2KEpoch 1/1"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b[1m")));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
}

std::string drawn(const ProgressStyle& style, const std::function<void(Progress&)>& draw) {
  char* text = nullptr;
  std::size_t size = 0;
  std::FILE* out = open_memstream(&text, &size);
  Progress progress(out, style, {});
  draw(progress);
  std::fclose(out);
  std::string result(text, size);
  std::free(text);
  return result;
}

TEST(Progress, CountsTheTestSetInTheBar) {
  const std::string text =
      drawn({.terminal = true, .color = false, .width = 100}, [](Progress& progress) {
        progress.step(step_report(50), Progress::Clock::time_point(seconds(5)));
        progress.evaluating({.counted = 16, .count = 10000},
                            Progress::Clock::time_point(seconds(5)));
        progress.evaluating({.counted = 4512, .count = 10000},
                            Progress::Clock::time_point(seconds(6)));
      });
  EXPECT_THAT(text, HasSubstr("  evaluating  4512/10000  step  50/100"));
  EXPECT_THAT(text, Not(HasSubstr("16/10000")));  // too soon after the bar before
}

TEST(Progress, CountsTheTestSetInPlainLinesNowAndThen) {
  const std::string text = drawn({}, [](Progress& progress) {
    progress.step(step_report(50), Progress::Clock::time_point(seconds(5)));
    for (int i = 1; i <= 12; ++i)
      progress.evaluating({.counted = std::int64_t{100} * i, .count = 1200},
                          Progress::Clock::time_point(seconds(5 + i)));
  });
  EXPECT_EQ(std::ranges::count(text, '\n'), 3);
  EXPECT_THAT(text, HasSubstr("\nstep  50/100  epoch 1/2  evaluating  500/1200  17s to go\n"));
}

TEST(Progress, ShowsARunningMeanOfTheLoss) {
  const std::string text = drawn({}, [](Progress& progress) {
    StepReport report = step_report(1);
    for (int step = 1; step <= 4000; ++step) {
      report.step = step;
      report.loss = step % 2 == 0 ? 0.5 : 1.5;
      progress.step(report, Progress::Clock::time_point(seconds(step < 4000 ? 0 : 10)));
    }
  });
  EXPECT_THAT(text, HasSubstr("loss 0.99"));
}

TEST(RunningMean, BeginsWithItsFirstValueAndForgetsOldOnes) {
  RunningMean mean;
  EXPECT_EQ(mean.add(3), 3);
  EXPECT_LT(mean.add(1), 2.1);
  for (int i = 0; i < 500; ++i) mean.add(1);
  EXPECT_NEAR(mean.add(1), 1, 1e-3);
}

TEST(RunningMean, HidesNoValueThatIsNotFinite) {
  RunningMean mean;
  mean.add(1);
  EXPECT_TRUE(std::isnan(mean.add(std::nan(""))));
  EXPECT_EQ(mean.add(2), 2);
}

TEST(Progress, UsesColorOnlyWhereAskedTo) {
  EXPECT_THAT(shown({.terminal = true, .color = true, .width = 60}, 1, 1), HasSubstr("\x1b[1m"));
}

TEST(Progress, DrawsNoBarOnTheTerminalThatMpirunMakes) {
  const int controller = ::posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_GE(controller, 0);
  ASSERT_EQ(::grantpt(controller), 0);
  ASSERT_EQ(::unlockpt(controller), 0);
  std::FILE* terminal = std::fopen(::ptsname(controller), "w");
  ASSERT_NE(terminal, nullptr);
  ::setenv("TERM", "xterm", 1);
  EXPECT_TRUE(ProgressStyle::of(terminal).terminal);
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  EXPECT_FALSE(ProgressStyle::of(terminal).terminal);
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  std::fclose(terminal);
  ::close(controller);
}

TEST(Progress, KnowsThatAPipeIsNoTerminal) {
  std::FILE* file = std::tmpfile();
  EXPECT_FALSE(ProgressStyle::of(file).terminal);
  EXPECT_FALSE(ProgressStyle::of(file).color);
  std::fclose(file);
}

}  // namespace
}  // namespace troupe
