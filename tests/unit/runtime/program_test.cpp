// run_main: what a user's program does with errors that leave its body.
#include "runtime/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <thread>

#include "runtime/flow/run.h"
#include "tests/sanitized.h"

namespace troupe {
namespace {

struct Ended {
  int code = 0;
  std::string error;
};

template <class Body>
Ended end_of(Body body) {
  testing::internal::CaptureStderr();
  const int code = run_main(body);
  return {code, testing::internal::GetCapturedStderr()};
}

TEST(RunMain, TellsMessageAndRemedyOfAnErrorThatEscapes) {
  const Ended ended = end_of([] { throw Error(ErrorCode::bad_file, "a is torn", "mend a"); });
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.error, testing::EndsWith(": error: a is torn\n  try: mend a\n"));
}

TEST(RunMain, AsksABodyThatCanBeStoppedToStopAtASignal) {
  const Ended ended = end_of([](const std::stop_token& stop) {
    ::kill(::getpid(), SIGTERM);
    while (!stop.stop_requested()) std::this_thread::yield();
    return RunReport{.stopped = true};
  });
  EXPECT_EQ(ended.code, 75);
  EXPECT_THAT(ended.error, testing::HasSubstr("stopping before the next step"));
}

TEST(RunMain, ReportsThatNoDescriptorIsLeftToWaitForSignals) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer needs descriptors of its own";
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  testing::internal::CaptureStderr();  // which needs descriptors of its own
  const rlimit none{.rlim_cur = 0, .rlim_max = limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int code = run_main([](const std::stop_token&) { return 0; });
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(code, 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("ulimit -n"));
  sigset_t mask;
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &mask), 0);
  EXPECT_FALSE(::sigismember(&mask, SIGTERM)) << "the signals are blocked for ever";
}

TEST(RunMain, EndsWith2ForWrongOptionsAndUsage) {
  EXPECT_EQ(end_of([] { throw Error(ErrorCode::bad_options, "lr is -1"); }).code, 2);
  EXPECT_EQ(end_of([] { throw Error(ErrorCode::usage, "no file"); }).code, 2);
}

TEST(RunMain, TellsForeignExceptionsToo) {
  const Ended ended = end_of([] { throw std::out_of_range("past the end"); });
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.error, testing::EndsWith(": error: past the end\n"));
}

TEST(RunMain, HandsOnWhatTheBodyReturns) {
  EXPECT_EQ(end_of([] {}).code, 0);
  EXPECT_EQ(end_of([] { return 7; }).code, 7);
  EXPECT_EQ(end_of([] { return RunReport{}; }).code, 0);
}

TEST(RunMain, EndsWith75WhereTheRunWasStopped) {
  RunReport report;
  report.stopped = true;
  EXPECT_EQ(end_of([&] { return report; }).code, 75);
}

}  // namespace
}  // namespace troupe
