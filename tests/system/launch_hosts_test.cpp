// `troupe launch` on several hosts that meet.
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "tests/system/launch.h"
#include "tests/system/world.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

/// Another program's socket at a port of the loopback.
class Occupied {
 public:
  explicit Occupied(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    // A test before this one may have had the port, whose connections the kernel remembers a while.
    share(1);
    if (::bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("the port of the test is taken");
    share(0);
  }
  ~Occupied() { free(); }
  Occupied(const Occupied&) = delete;
  Occupied& operator=(const Occupied&) = delete;

  /// Takes connections and says nothing. Before, nobody else can listen there, but none is taken.
  void listen() {
    share(1);
    ASSERT_EQ(::listen(socket_, 8), 0);
    share(0);
    accepting_ = std::jthread([this] {
      for (int caller; (caller = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
        callers_.push_back(caller);
    });
  }

  /// As when a server is killed: its connections end from its side.
  void free() {
    ::shutdown(socket_, SHUT_RDWR);
    if (accepting_.joinable()) accepting_.join();
    for (const int caller : std::exchange(callers_, {})) ::close(caller);
    ::close(std::exchange(socket_, -1));
  }

 private:
  void share(int yes) { ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); }
  int socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  std::vector<int> callers_;
  std::jthread accepting_;
};

/// Two launchers of one job, which take themselves for two hosts.
class LaunchHosts : public Launch {
 protected:
  /// Words of one launcher: keys stay in the test's folder.
  std::vector<std::string> host(const std::vector<std::string>& flags, const std::string& script,
                                const std::string& key = "") const {
    std::vector<std::string> all{"/usr/bin/env", "HOME=" + root_.string(), "TROUPE_JOB_KEY=" + key};
    const auto launcher = words({"--rdzv-endpoint", meeting("localhost")}, script);
    const bool counted = std::find(flags.begin(), flags.end(), "--nnodes") != flags.end();
    all.insert(all.end(), launcher.begin(), launcher.begin() + 4);
    if (!counted) all.insert(all.end(), {"--nnodes", "2"});
    all.insert(all.end(), flags.begin(), flags.end());
    all.insert(all.end(), launcher.begin() + 4, launcher.end());
    return all;
  }
  std::string error_file(const char* name) const { return (root_ / name).string(); }

  /// The files of keys that there are.
  std::vector<std::string> key_files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(root_ / ".troupe" / "jobs"))
      names.push_back(entry.path().filename());
    return names;
  }

  std::string meeting(const std::string& host) const { return host + ":" + std::to_string(port_); }

  /// Waits until somebody hosts the meeting.
  bool hosted() const {
    return comes_true([&] {
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_port = htons(static_cast<std::uint16_t>(port_));
      address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      const int number = ::socket(AF_INET, SOCK_STREAM, 0);
      const int failed = ::connect(number, reinterpret_cast<sockaddr*>(&address), sizeof address);
      ::close(number);
      return failed == 0;
    });
  }

  /// This one and the next, apart from what other tests of this machine use at the same time: the
  /// Slurm of a test takes some from 20000 on.
  int port_ = 10000 + 2 * (::getpid() % 5000);
};

TEST_F(LaunchHosts, MeetAndNumberTheirProcessesHostByHost) {
  const std::string script =
      "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $GROUP_RANK > place.$RANK; "
      "echo $MASTER_ADDR $MASTER_PORT $TROUPE_RUN_ID $TROUPE_COORDINATOR $TROUPE_JOB_KEY > "
      "common.$RANK";
  Running one(host({"--node-rank", "1", "--nproc-per-node", "2"}, script), error_file("one"));
  Running zero(host({"--node-rank", "0"}, script), error_file("zero"));
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
  EXPECT_EQ(one.wait(), 0) << content(root_ / "one");
  EXPECT_EQ(content(root_ / "place.0"), "0 3 0 1 0\n");
  EXPECT_EQ(content(root_ / "place.1"), "1 3 0 2 1\n");
  EXPECT_EQ(content(root_ / "place.2"), "2 3 1 2 1\n");
  EXPECT_THAT(content(root_ / "common.0"),
              ContainsRegex("^127.0.0.1 [0-9]+ none-[0-9a-f]+ tcp://127.0.0.1:[0-9]+ [0-9a-f]+"));
  EXPECT_EQ(content(root_ / "common.0"), content(root_ / "common.2"));
  EXPECT_TRUE(fs::is_empty(root_ / ".troupe" / "jobs"));
}

TEST_F(LaunchHosts, MeetAtTheLocalAddressOrRefuseIt) {
  // Of this machine, but no interface's own.
  const auto ran = run_process(
      host({"--node-rank", "0", "--local-addr", "127.0.0.2", "--rdzv-conf", "join_timeout=1"},
           "true"),
      root_.string());
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_THAT(
      ran.error,
      ContainsRegex("--local-addr 127.0.0.2 is not an address of [^;]+; it has .*127.0.0.1"));
  EXPECT_TRUE(key_files().empty());
}

TEST_F(LaunchHosts, MeetAtTheInterfaceOrNameThatTheirLocalAddressGives) {
  for (const char* local : {"lo", "localhost"}) {
    SCOPED_TRACE(local);
    Running one(host({"--node-rank", "1", "--local-addr", local}, "true"), error_file("one"));
    Running zero(host({"--node-rank", "0", "--local-addr", local}, "true"), error_file("zero"));
    EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
    EXPECT_EQ(one.wait(), 0) << content(root_ / "one");
  }
}

TEST_F(LaunchHosts, TellTheMastersAddressThatTheFirstWasGiven) {
  const std::string script = "echo $MASTER_ADDR > master.$RANK";
  Running one(host({"--node-rank", "1"}, script), error_file("one"));
  Running zero(host({"--node-rank", "0", "--master-addr", "10.1.2.3"}, script), error_file("zero"));
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
  EXPECT_EQ(one.wait(), 0) << content(root_ / "one");
  for (const char* name : {"master.0", "master.1"})
    EXPECT_EQ(content(root_ / name), "10.1.2.3\n") << name;
}

TEST_F(LaunchHosts, SayThatAnotherProgramHasThePortAndTakeItOnceItIsFree) {
  Occupied other(port_);
  other.listen();
  const auto ran = run_process(host({"--node-rank", "0", "--rdzv-conf", "join_timeout=1"}, "true"),
                               root_.string());
  EXPECT_EQ(ran.exit_code, 1);
  const std::string at_once = "in use, by a program that is not a launcher; waiting for the port\n";
  EXPECT_THAT(ran.error, HasSubstr(at_once));
  EXPECT_THAT(ran.error,
              AllOf(HasSubstr("cannot listen on tcp://" + meeting("127.0.0.1") + ": Address"),
                    HasSubstr("--rdzv-endpoint sets the port")));
  EXPECT_TRUE(key_files().empty());

  const auto waits = [&](const char* name) {
    return comes_true([&] { return content(root_ / name).ends_with(at_once); });
  };
  Running stopped(host({"--node-rank", "0"}, "true"), error_file("stopped"));
  EXPECT_TRUE(waits("stopped"));
  stopped.signal(SIGTERM);
  EXPECT_EQ(stopped.wait(), 128 + SIGTERM);
  EXPECT_TRUE(key_files().empty());
  const char* limit = "join_timeout=20";
  Running zero(host({"--node-rank", "0", "--rdzv-conf", limit}, "true"), error_file("zero"));
  Running one(host({"--node-rank", "1", "--rdzv-conf", limit}, "true"), error_file("one"));
  EXPECT_TRUE(waits("zero") && waits("one"));
  // As when a server is killed: while somebody asks what it is. What it would leave of such a
  // connection keeps the port for a minute.
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  other.free();
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
  EXPECT_EQ(one.wait(), 0) << content(root_ / "one");
}

TEST_F(LaunchHosts, TryAgainWhereNobodyHasThePortThatTheyAreRefused) {
  // What two launchers meet that begin to listen at the same moment.
  Occupied other(port_);
  const char* limit = "join_timeout=20";
  Running zero(host({"--node-rank", "0", "--rdzv-conf", limit}, "true"), error_file("zero"));
  ASSERT_TRUE(comes_true([&] { return !content(root_ / "zero").empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  other.free();
  Running one(host({"--node-rank", "1", "--rdzv-conf", limit}, "true"), error_file("one"));
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
  EXPECT_EQ(one.wait(), 0) << content(root_ / "one");
}

TEST_F(LaunchHosts, EndWhereThePortIsRefusedThoughNobodyListens) {
  const Occupied other(port_);
  const auto ran = run_process(host({"--node-rank", "0"}, "true"), root_.string());
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_THAT(ran.error, AllOf(HasSubstr("cannot listen on tcp://" + meeting("127.0.0.1")),
                               HasSubstr("--rdzv-endpoint sets the port")));
  EXPECT_TRUE(key_files().empty());
}

TEST_F(LaunchHosts, EndTogetherWithTheFirstFailureToldEverywhere) {
  const std::string script = "[ $RANK = 1 ] && exit 9; exec sleep 60";
  Running zero(host({"--node-rank", "0"}, script), error_file("zero"));
  Running one(host({"--node-rank", "1"}, script), error_file("one"));
  EXPECT_EQ(zero.wait(), 9);
  EXPECT_EQ(one.wait(), 9);
  for (const char* name : {"zero", "one"})
    EXPECT_THAT(content(root_ / name), ContainsRegex("rank 1 .*failed first: exit code 9"));
}

TEST_F(LaunchHosts, TellWhatAnothersProcessFoundOfOneThatWasKilled) {
  const std::string script =
      "[ $RANK = 0 ] && { until [ -e ready ]; do sleep 0.05; done; touch killed; kill -9 $$; }; "
      "trap '' TERM; touch ready; until [ -e killed ]; do sleep 0.05; done; "
      "printf '{\"message\": {\"message\": \"rank 0 is lost\", \"extraInfo\": {\"kind\": "
      "\"peer_lost\", \"printed\": true, \"py_callstack\": \"try: --restart out\"}}}' "
      "> $TORCHELASTIC_ERROR_FILE; echo rank 0 is lost >&2; exit 1";
  Running zero(host({"--node-rank", "0"}, script), error_file("zero"));
  Running one(host({"--node-rank", "1"}, script), error_file("one"));
  for (Running* launcher : {&zero, &one}) EXPECT_EQ(launcher->wait(), 128 + SIGKILL);
  EXPECT_THAT(content(root_ / "zero"),
              ContainsRegex("rank 0 .* failed first: signal 9 .*\n  rank 1 on .* reported:\n"
                            "  rank 0 is lost\n  try: --restart out\n"));
  EXPECT_EQ(count_of(content(root_ / "one"), "rank 0 is lost"), 1) << content(root_ / "one");
  EXPECT_THAT(content(root_ / "one"), ContainsRegex("ranks? 1 .*; rank 0 reports on "));
}

TEST_F(LaunchHosts, WaitForProcessesThatTakeTheirTimeToEnd) {
  const std::string script =
      "[ $RANK = 1 ] && { until [ -e ready ]; do sleep 0.05; done; exit 9; }; "
      "trap 'echo $$ > asked' TERM; touch ready; until [ -e go ]; do sleep 0.05; done";
  Running one(host({"--node-rank", "1"}, script), error_file("one"));
  Running zero(host({"--node-rank", "0"}, script), error_file("zero"));
  number_in("asked");
  // For longer than it takes to give up a host that does not answer.
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  EXPECT_TRUE(runs(one.pid()));
  std::ofstream(root_ / "go") << "\n";
  EXPECT_EQ(zero.wait(), 9);
  EXPECT_EQ(one.wait(), 9);
  for (const char* name : {"zero", "one"})
    EXPECT_THAT(content(root_ / name), ContainsRegex("rank 1 .*failed first: exit code 9"));
}

TEST_F(LaunchHosts, EndWhenALauncherIsKilled) {
  const std::string script = "echo $$ > pid.$RANK; exec sleep 60";
  Running zero(host({"--node-rank", "0"}, script), error_file("zero"));
  ASSERT_TRUE(hosted());
  Running one(host({"--node-rank", "1"}, script), error_file("one"));
  const int pid = number_in("pid.0");
  number_in("pid.1");
  one.signal(SIGKILL);
  EXPECT_EQ(zero.wait(), 1);
  EXPECT_THAT(content(root_ / "zero"), ContainsRegex("the launcher on .* is lost: "));
  EXPECT_FALSE(runs(pid));
}

TEST_F(LaunchHosts, OfTwoJobsWithOneNameHaveAKeyEach) {
  const std::string wait = "until [ -e go ]; do sleep 0.05; done";
  Running zero(host({"--node-rank", "0"}, wait), error_file("zero"));
  ASSERT_TRUE(hosted());
  ASSERT_EQ(key_files(), std::vector{"none-localhost-" + std::to_string(port_)});
  ++port_;  // the other job meets elsewhere, and is over before the first is whole
  Running other(host({"--node-rank", "0"}, "true"), error_file("other"));
  ASSERT_TRUE(hosted());
  EXPECT_EQ(key_files().size(), 2u);
  EXPECT_EQ(run_process(host({"--node-rank", "1"}, "true")).exit_code, 0);
  EXPECT_EQ(other.wait(), 0) << content(root_ / "other");
  --port_;
  ASSERT_EQ(key_files(), std::vector{"none-localhost-" + std::to_string(port_)});
  Running late(host({"--node-rank", "1"}, "touch go"), error_file("late"));
  EXPECT_EQ(late.wait(), 0) << content(root_ / "late");
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
  EXPECT_TRUE(key_files().empty());
}

TEST_F(LaunchHosts, LeaveTheKeyToWhoeverHostsTheMeeting) {
  Running zero(host({"--node-rank", "0"}, "true"), error_file("zero"));
  ASSERT_TRUE(hosted());
  EXPECT_EQ(run_process(host({"--node-rank", "1", "--nnodes", "3"}, "true")).exit_code, 1);
  EXPECT_EQ(key_files().size(), 1u);
  EXPECT_EQ(run_process(host({"--node-rank", "1"}, "true")).exit_code, 0);
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
  EXPECT_TRUE(key_files().empty());
}

TEST_F(LaunchHosts, SayWhoIsMissing) {
  const auto alone = run_process(
      host({"--node-rank", "0", "--rdzv-conf", "join_timeout=1"}, "true"), root_.string());
  EXPECT_EQ(alone.exit_code, 1);
  EXPECT_THAT(alone.error, AllOf(HasSubstr("not all of the 2 hosts connected"),
                                 HasSubstr("node rank 1 of 2 did not join"),
                                 HasSubstr("--rdzv-endpoint on each host")));
  EXPECT_TRUE(key_files().empty()) << "the next job of this name would have the same key";
}

TEST_F(LaunchHosts, RefuseARankTwiceAndAnotherNumberOfHosts) {
  Running zero(host({"--node-rank", "0"}, "true"), error_file("zero"));
  ASSERT_TRUE(hosted());
  const auto twice = run_process(host({"--node-rank", "0"}, "true"));
  EXPECT_EQ(twice.exit_code, 1);
  EXPECT_THAT(twice.error,
              ContainsRegex("was started with [-`]+node.rank`? 0, which .* already has\n"
                            "  try: set [-`]+node.rank`? to 1\n"));
  const auto three = run_process(host({"--node-rank", "1", "--nnodes", "3"}, "true"));
  EXPECT_EQ(three.exit_code, 1);
  EXPECT_THAT(three.error,
              ContainsRegex("was started with [-`]+nnodes`? 3, the host of the rendezvous with 2\n"
                            "  try: set [-`]+nnodes`? to 2\n"));
  // The launchers that wait there report it as well, at once and once each.
  EXPECT_TRUE(comes_true(
      [&] { return count_of(content(root_ / "zero"), "of the rendezvous with 2") > 0; }));
  EXPECT_THAT(content(root_ / "zero"),
              AllOf(ContainsRegex("troupe launch: refused: .* was started with [-`]+node.rank`? 0"),
                    ContainsRegex("troupe launch: refused: .* was started with [-`]+nnodes`? 3")));
  EXPECT_EQ(count_of(content(root_ / "zero"), "refused"), 2);
  EXPECT_EQ(run_process(host({"--node-rank", "1"}, "true")).exit_code, 0);
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
}

TEST_F(LaunchHosts, RefuseAnotherRunAndAnotherKey) {
  const std::string key(64, '7'), other(64, '5');
  Running zero(host({"--node-rank", "0", "--rdzv-id", "a"}, "true", key), error_file("zero"));
  ASSERT_TRUE(hosted());
  const auto wrong_run = run_process(
      host({"--node-rank", "1", "--rdzv-id", "b", "--rdzv-conf", "join_timeout=20"}, "true", key));
  EXPECT_EQ(wrong_run.exit_code, 1);
  EXPECT_THAT(wrong_run.error,
              AllOf(ContainsRegex("was started with [-`]+rdzv.id`? b"),
                    ContainsRegex("  try: set [-`]+rdzv.id`? as the other hosts")));
  const auto wrong_key = run_process(host(
      {"--node-rank", "1", "--rdzv-id", "a", "--rdzv-conf", "join_timeout=20"}, "true", other));
  EXPECT_EQ(wrong_key.exit_code, 1);
  EXPECT_THAT(wrong_key.error, HasSubstr("TROUPE_JOB_KEY"));
  EXPECT_THAT(wrong_key.error, AllOf(Not(HasSubstr(key)), Not(HasSubstr(other))));
  EXPECT_TRUE(comes_true([&] { return count_of(content(root_ / "zero"), "job key") > 0; }));
  EXPECT_EQ(count_of(content(root_ / "zero"), "refused: a client with a different job key"), 1);
  // The job that was meant is none the worse.
  EXPECT_EQ(run_process(host({"--node-rank", "1", "--rdzv-id", "a"}, "true", key)).exit_code, 0);
  EXPECT_EQ(zero.wait(), 0) << content(root_ / "zero");
}

// Names are part of where the key is, so that each has drawn one of its own.
TEST_F(LaunchHosts, TakeTheirKeyAwayWhereTheMeetingIsOfAnother) {
  Running zero(host({"--node-rank", "0", "--rdzv-id", "a"}, "true"), error_file("zero"));
  ASSERT_TRUE(hosted());
  const auto other = run_process(host({"--node-rank", "1", "--rdzv-id", "b"}, "true"));
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.error, ContainsRegex("wrong job key.*\n  try: .*the same --rdzv-id"));
  EXPECT_EQ(key_files(), std::vector{"a-localhost-" + std::to_string(port_)});
  zero.signal(SIGTERM);
  EXPECT_EQ(zero.wait(), 128 + SIGTERM);
}

TEST_F(LaunchHosts, CanBeInterruptedWhileTheyWait) {
  Running zero(host({"--node-rank", "0"}, "true"), error_file("zero"));
  ASSERT_TRUE(hosted());
  zero.signal(SIGTERM);
  EXPECT_EQ(zero.wait(), 128 + SIGTERM);
  EXPECT_TRUE(key_files().empty());
}

}  // namespace
}  // namespace troupe
