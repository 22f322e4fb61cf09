// How a run in several processes ends, and what its ends leave behind.
#include <signal.h>

#include "tests/system/world.h"

namespace troupe {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

TEST_F(World, SavesAndGoesOnWhenItsLauncherIsStopped) {
  const auto run = std::move(begin_long_run().launchers.front());
  run->signal(SIGTERM);
  const Outcome ended = run->wait();
  EXPECT_EQ(ended.exit_code, 75) << ended.error;
  EXPECT_THAT(ended.out, HasSubstr("stopped after step " + std::to_string(newest_step("out"))));
  expect_nothing_is_left();
  expect_it_goes_on(4);
}

TEST_F(World, SavesAndSaysWhyWhenOneOfItsProcessesIsAskedToStop) {
  const auto run = std::move(begin_long_run().launchers.front());
  send_signal(process_of(2), SIGTERM);
  const Outcome ended = run->wait();
  EXPECT_EQ(ended.exit_code, 75) << ended.error;
  EXPECT_THAT(ended.out, HasSubstr("stopped after step " + std::to_string(newest_step("out")) +
                                   ", because another process received the request; resume with"));
  expect_nothing_is_left();
}

TEST_F(World, EndsAndNamesTheProcessThatWasKilled) {
  const auto run = std::move(begin_long_run().launchers.front());
  send_signal(process_of(2), SIGKILL);
  const Outcome ended = run->wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL) << ended.error;
  EXPECT_THAT(ended.error, ContainsRegex("rank 2 \\(local rank 2 on .*signal 9 \\(SIGKILL\\)"));
  EXPECT_EQ(count_of(ended.error, "failed first"), 1) << ended.error;
  EXPECT_THAT(ended.error, HasSubstr(", often because memory ran out"));
  EXPECT_THAT(ended.error, ContainsRegex("resume from step [0-9]+ with the same command and "
                                         "--restart .*out"));
  EXPECT_LE(count_of(ended.error, "error: "), 1) << ended.error;
  expect_nothing_is_left();
  expect_it_goes_on(2);
}

TEST_F(World, EndsWhenTheProcessThatLeadsIsKilled) {
  const auto run = std::move(begin_long_run().launchers.front());
  send_signal(process_of(0), SIGKILL);
  const Outcome ended = run->wait();
  EXPECT_EQ(ended.exit_code, 128 + SIGKILL) << ended.error;
  EXPECT_THAT(ended.error, ContainsRegex("rank 0 \\(local rank 0 on .*signal 9 \\(SIGKILL\\)"));
  expect_nothing_is_left();
  expect_it_goes_on(1);
}

TEST_F(World, EndsAfterTheTimeoutWhenAProcessHangs) {
  EXPECT_TRUE(ends_in_time(2, [this](int timeout) {
    const auto run = begin_long_run(timeout);
    const Stopwatch stopwatch;
    send_signal(process_of(3), SIGSTOP);
    const Outcome ended = run.launchers.front()->wait();
    const bool in_time = stopwatch.passed() < 3 * run.silence;
    EXPECT_EQ(ended.exit_code, 1) << ended.error;
    EXPECT_THAT(ended.error, ContainsRegex("error: rank 3 on .* is lost: .*" + run.timeout));
    expect_nothing_is_left();
    return in_time;
  }));
}

// It is woken to end as well, finds the others gone, and is not to tell that.
TEST_F(World, LeavesItToTheOthersToTellThatAProcessHung) {
  for (const std::string transport : {"shm", "gloo"})
    for (const int rank : {0, 2}) {
      SCOPED_TRACE(transport + ", rank " + std::to_string(rank));
      const auto run = begin_long_run(2, with({"parallel.transport=" + transport}));
      send_signal(process_of(rank), SIGSTOP);
      const Outcome ended = run.launchers.front()->wait();
      EXPECT_EQ(ended.exit_code, 1) << ended.error;
      EXPECT_EQ(count_of(ended.error, "troupe: error: "), 1) << ended.error;
      EXPECT_THAT(ended.error, ContainsRegex("error: rank " + std::to_string(rank) +
                                             " on .* is lost: .*" + run.timeout));
      expect_nothing_is_left();
      std::filesystem::remove_all(root_ / "out");
    }
}

}  // namespace
}  // namespace troupe
