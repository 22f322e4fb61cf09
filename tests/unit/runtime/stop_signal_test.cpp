#include "runtime/stop_signal.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <future>

namespace troupe {
namespace {

TEST(StopSignal, CallsOnceOnAThreadOfItsOwn) {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGHUP}) {
    std::signal(signal, SIG_DFL);  // of SIGHUP it matters how the tests were started
    std::promise<std::thread::id> called;
    const StopSignal stop([&] { called.set_value(std::this_thread::get_id()); });
    ::kill(::getpid(), signal);
    EXPECT_NE(called.get_future().get(), std::this_thread::get_id());
  }
}

TEST(StopSignal, IsSilentWithoutASignal) {
  bool called = false;
  {
    const StopSignal stop([&] { called = true; });
  }
  EXPECT_FALSE(called);
}

TEST(StopSignal, HeedsNoHangupUnderNohup) {
  std::signal(SIGHUP, SIG_IGN);
  bool called = false;
  {
    const StopSignal stop([&] { called = true; });
    ::kill(::getpid(), SIGHUP);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_FALSE(called);
  std::signal(SIGHUP, SIG_DFL);
}

/// Until the second signal ends the process; a signal that never comes fails the test by exiting.
void stop_twice() {
  std::promise<void> called;
  const StopSignal stop([&] {
    called.set_value();
    for (;;) ::pause();
  });
  ::kill(::getpid(), SIGTERM);
  called.get_future().wait();
  ::kill(::getpid(), SIGTERM);  // the same wish, sent twice by a launcher: no second signal
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  for (int i = 0; i < 300; ++i) {  // on a busy machine the first ones may still count as repeated
    ::kill(::getpid(), SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  ::_exit(0);
}

TEST(StopSignalDeathTest, ASecondSignalEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(stop_twice(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace troupe
