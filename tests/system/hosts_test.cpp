// `troupe train` on several hosts, which are network namespaces of the test's own.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "tests/system/world.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::ContainsRegex;
using testing::HasSubstr;

/// Three hosts of the test's own, with the addresses 10.77.0.1 to 10.77.0.3 and names of their own.
class WorldOfHosts : public World {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
    for (const char* tool : {"/usr/sbin/ip", "/usr/bin/ss"})
      if (!fs::exists(tool)) GTEST_SKIP() << tool << " (iproute2) is not installed";
    const Outcome up = hosts({"up", name_, "3"});
    if (up.exit_code != 0) GTEST_SKIP() << "no network namespaces here: " << up.error;
  }
  ~WorldOfHosts() override { hosts({"down", name_}); }

  static Outcome hosts(const Words& words) {
    return run_process(Words{"/bin/sh", TROUPE_SOURCE_DIR "/tests/system/hosts/hosts.sh"} + words);
  }
  Words on_host(int host, const Words& words) const {
    const std::string number = std::to_string(host);
    return Words{"/usr/sbin/ip",
                 "netns",
                 "exec",
                 name_ + "-h" + number,
                 "/usr/bin/unshare",
                 "--uts",
                 "/bin/sh",
                 "-c",
                 "hostname \"$0\"; exec \"$@\"",
                 "host" + number} +
           words;
  }
  std::unique_ptr<Background> launch_on(int host, int of, int processes,
                                        const Words& program) const {
    const Words launcher{"/usr/bin/env",
                         "TROUPE_JOB_KEY=" + std::string(64, 'a'),
                         TROUPE_BINARY,
                         "launch",
                         "--nnodes",
                         std::to_string(of),
                         "--node-rank",
                         std::to_string(host - 1),
                         "--nproc-per-node",
                         std::to_string(processes),
                         "--rdzv-endpoint",
                         "10.77.0.1:29400",
                         "--rdzv-id",
                         name_,
                         "--"};
    return std::make_unique<Background>(on_host(host, launcher + program));
  }
  std::vector<std::unique_ptr<Background>> launch_everywhere(int of, int processes,
                                                             const Words& program) const {
    std::vector<std::unique_ptr<Background>> launchers;
    for (int host = 1; host <= of; ++host)
      launchers.push_back(launch_on(host, of, processes, program));
    return launchers;
  }

  /// Three hosts in the middle of a run.
  LongRun begin_long_run(int timeout) const {
    return World::begin_long_run(timeout, [this](const Words& words) {
      return launch_everywhere(3, 1, words + with({"parallel.interface=eth0"}));
    });
  }
  struct Ended {
    std::vector<Outcome> launchers;
    bool in_time;  ///< all of them
  };
  /// What comes of the run once a way between hosts is gone.
  Ended without(const LongRun& run, const Words& way) const {
    EXPECT_EQ(hosts(way).exit_code, 0);
    const Stopwatch stopwatch;
    Ended ended;
    for (const auto& launcher : run.launchers) ended.launchers.push_back(launcher->wait());
    ended.in_time = stopwatch.passed() < 3 * run.silence;
    expect_nothing_is_left();
    EXPECT_EQ(hosts({"mend", name_, "3"}).exit_code, 0);
    return ended;
  }

  const std::string name_ = "troupe" + std::to_string(::getpid());
};

TEST_F(WorldOfHosts, GivesTheSameBitsAcrossThreeHosts) {
  const auto launchers =
      launch_everywhere(3, 1, train_words("out", with({"parallel.interface=eth0"})));
  for (const auto& launcher : launchers) {
    const Outcome ran = launcher->wait();
    EXPECT_EQ(ran.exit_code, 0) << ran.error;
    if (launcher == launchers.front()) {
      EXPECT_THAT(ran.out,
                  ContainsRegex("3 processes on 3 hosts \\(.*\\), Gloo, started by troupe launch"));
    }
  }
  EXPECT_EQ(digest("out"), reference());
}

TEST_F(WorldOfHosts, TellsTheSpeedBetweenHostsAndTheirInterfaces) {
  const auto launchers = launch_everywhere(3, 1, {"doctor", "--network"});
  for (const auto& launcher : launchers) {
    const Outcome ran = launcher->wait();
    EXPECT_EQ(ran.exit_code, 0) << ran.error;
    if (launcher == launchers.front()) {
      EXPECT_THAT(ran.out, ContainsRegex("host1: eth0 \\(10.77.0.1\\), host2: eth0 \\(10"));
      EXPECT_THAT(ran.out, ContainsRegex("   2    0  host3 to host1  Gloo "));
    }
  }
}

TEST_F(WorldOfHosts, NamesTheHostThatLacksTheInterface) {
  for (const Words& change : {Words{"eth0", "down"}, {"eth0", "name", "up0"}, {"up0", "up"}})
    EXPECT_EQ(run_process(on_host(2, Words{"/usr/sbin/ip", "link", "set"} + change)).exit_code, 0);
  std::string output;
  for (const auto& launcher :
       launch_everywhere(2, 2, train_words("out", with({"parallel.interface=eth0"})))) {
    const Outcome ran = launcher->wait();
    EXPECT_EQ(ran.exit_code, 2) << ran.error;
    output += ran.error;
  }
  EXPECT_EQ(count_of(output, "troupe: error: "), 1) << output;
  EXPECT_THAT(output, HasSubstr("error: there is no network interface 'eth0' on host2; there is "));
}

TEST_F(WorldOfHosts, GivesTheSameBitsWhereTwoProcessesShareAHost) {
  const auto launchers = launch_everywhere(2, 2, train_words("out"));
  for (const auto& launcher : launchers) {
    const Outcome ran = launcher->wait();
    EXPECT_EQ(ran.exit_code, 0) << ran.error;
    if (launcher == launchers.front()) {
      EXPECT_THAT(ran.out, HasSubstr("4 processes on 2 hosts"));
    }
  }
  EXPECT_EQ(digest("out"), reference());
}

TEST_F(WorldOfHosts, ListensOnTheNamedInterfaceAndNamesAHostThatIsCutOff) {
  EXPECT_TRUE(ends_in_time(3, [this](int silence) {
    const LongRun run = begin_long_run(silence);
    for (const std::string host : {"1", "2"}) {
      const Outcome listening = run_process(on_host(std::stoi(host), {"/usr/bin/ss", "-ltnH"}));
      // On host 1 launchers and processes meet as well.
      EXPECT_THAT(listening.out, HasSubstr(host == "1" ? " 10.77.0.1:29400 " : " 10.77.0.2:"));
      EXPECT_EQ(count_of(listening.out, "LISTEN"),
                count_of(listening.out, " 10.77.0." + host + ":"))
          << listening.out;
    }
    const auto [ended, in_time] = without(run, {"cut", name_, "3"});
    EXPECT_EQ(ended[0].exit_code, 1) << ended[0].error;
    // Of the other two one tells it, rank 0 unless that takes it too long.
    EXPECT_THAT(ended[0].error + ended[1].error,
                ContainsRegex("error: rank 2 on host3 .*is lost: .*" + run.timeout));
    EXPECT_THAT(ended[0].error,
                ContainsRegex("(error: |  )rank 2 on host3 .*is lost: .*" + run.timeout));
    EXPECT_NE(ended[1].exit_code, 0);
    EXPECT_NE(ended[2].exit_code, 124);
    return in_time;
  }));
}

TEST_F(WorldOfHosts, NamesTheHostThatLeadsWhenItIsCutOff) {
  EXPECT_TRUE(ends_in_time(3, [this](int silence) {
    const LongRun run = begin_long_run(silence);
    const auto [ended, in_time] = without(run, {"cut", name_, "1"});
    // The other two can reach each other: one of them tells it for both.
    EXPECT_EQ(ended[1].exit_code, 1) << ended[1].error;
    EXPECT_EQ(ended[2].exit_code, 1) << ended[2].error;
    EXPECT_THAT(ended[1].error + ended[2].error,
                ContainsRegex("error: .* on host1 .*is lost: .*" + run.timeout));
    // To the host that leads it is the others that are gone.
    EXPECT_EQ(ended[0].exit_code, 1) << ended[0].error;
    EXPECT_THAT(ended[0].error,
                ContainsRegex("error: rank [12] on host[23] .*is lost: .*" + run.timeout));
    return in_time;
  }));
}

// Neither their coordinator nor their launchers' meeting is where the way between them ends.
TEST_F(WorldOfHosts, NamesOneOfTwoHostsThatCannotReachEachOther) {
  EXPECT_TRUE(ends_in_time(3, [this](int silence) {
    const LongRun run = begin_long_run(silence);
    const auto [ended, in_time] = without(run, {"part", name_, "2", "3"});
    std::string output;
    for (const Outcome& launcher : ended) {
      EXPECT_EQ(launcher.exit_code, 1) << launcher.error;
      EXPECT_THAT(launcher.error,
                  HasSubstr("ended because another process was lost: exit code 1 "));
      EXPECT_THAT(launcher.error,
                  ContainsRegex("(error: |  )rank [12] on host[23] .*is lost: .*" + run.timeout));
      EXPECT_EQ(count_of(launcher.error, "the launcher on"), 0) << launcher.error;
      output += launcher.error;
    }
    EXPECT_EQ(count_of(output, "troupe: error: "), 1) << output;
    return in_time;
  }));
}

/// What slow_consumer tells of its fast process: KiB, and messages.
struct FastProcess {
  long resident = 0, buffers = 0, bound = 0, mailbox = 0, mailbox_bound = 0;

  explicit FastProcess(const Outcome& ran) {
    EXPECT_EQ(ran.exit_code, 0) << ran.error;
    EXPECT_EQ(std::sscanf(ran.out.c_str(), "resident %ld buffers %ld bound %ld mailbox %ld of %ld",
                          &resident, &buffers, &bound, &mailbox, &mailbox_bound),
              5)
        << ran.out;
  }
};

TEST_F(WorldOfHosts, ASlowHostBoundsTheMemoryOfTheFastOne) {
  const std::string count = "120", kib = "1024", pause = "5";
  const auto run_with = [&](const std::string& slots) {
    const auto launchers =
        launch_everywhere(2, 1, {TROUPE_SLOW_CONSUMER, slots, kib, count, pause});
    // For a while it does nothing at all.
    std::vector<pid_t> slow;
    EXPECT_TRUE(comes_true([&] {
      slow = processes_with({"RANK=1", TROUPE_SLOW_CONSUMER, slots});
      return !slow.empty();
    }));
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    for (const pid_t process : slow) send_signal(process, SIGSTOP);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (const pid_t process : slow) send_signal(process, SIGCONT);
    EXPECT_EQ(launchers[1]->wait().exit_code, 0);
    return FastProcess(launchers[0]->wait());
  };
  constexpr long spare = 16 << 10;  // threads' stacks, sockets, code that is first used then
  const FastProcess bounded = run_with("4");
  EXPECT_EQ(bounded.bound, 4 << 10);
  EXPECT_LE(bounded.buffers, bounded.bound);
  EXPECT_LE(bounded.resident, 2 * bounded.bound + spare);
  EXPECT_LE(bounded.mailbox, bounded.mailbox_bound);
  // As many slots as messages are no bound: what the figures above would be then.
  const FastProcess unbounded = run_with(count);
  EXPECT_GT(unbounded.buffers, 2 * bounded.bound + spare);
  EXPECT_GT(unbounded.resident, 2 * bounded.bound + spare);
}

TEST_F(WorldOfHosts, ASlowLinkBoundsTheMemoryOfTheFastOne) {
  if (hosts({"slow", name_, "2", "400mbit"}).exit_code != 0)
    GTEST_SKIP() << "this kernel cannot slow a link down (tc, sch_tbf)";
  const auto launchers = launch_everywhere(2, 1, {TROUPE_SLOW_CONSUMER, "4", "1024", "60", "0"});
  EXPECT_EQ(launchers[1]->wait().exit_code, 0);
  const FastProcess fast(launchers[0]->wait());
  EXPECT_LE(fast.buffers, fast.bound);
  EXPECT_LE(fast.mailbox, fast.mailbox_bound);
}

}  // namespace
}  // namespace troupe
