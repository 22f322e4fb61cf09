// Processes that are killed or stopped. A child is this very program, given its part by its
// environment before any test runs.

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "world.h"

extern char** environ;

namespace troupe {
namespace {

using namespace control_test;
using testing::HasSubstr;

constexpr const char* part_variable = "TROUPE_CONTROL_TEST_PART";

/// "member ENDPOINT KEY RANK SIZE HOST TIMEOUT_MS" or "coordinator KEY SIZE TIMEOUT_MS".
[[noreturn]] void play(const std::string& text) {
  std::istringstream part(text);
  std::string what, endpoint, key, host;
  int rank = 0, size = 0, timeout = 0;
  part >> what;
  if (what == "coordinator") {
    part >> key >> size >> timeout;
    const auto coordinator =
        Coordinator::start(coordinator_options(size, JobKey::parse(key), milliseconds(timeout)));
    const std::string place = coordinator.value()->endpoint() + "\n";
    if (write(STDOUT_FILENO, place.data(), place.size()) < 0) _exit(1);
    for (;;) pause();
  }
  part >> endpoint >> key >> rank >> size >> host >> timeout;
  MemberOptions options;
  options.key = JobKey::parse(key);
  options.coordinator = endpoint;
  options.run = "test";
  options.rank = rank;
  options.size = size;
  options.host = host;
  options.timeout = milliseconds(timeout);
  auto joined = Member::join(options);
  if (!joined) _exit(2);
  Member& member = *joined.value();
  member.open([&](int from, const std::string& body) { member.send(from, "heard " + body); },
              [](const PeerLost& lost) {
                if (lost.rank == PeerLost::coordinator) _exit(3);
              });
  for (;;) pause();
}

class Child : public testing::Environment {
  void SetUp() override {
    if (const char* part = std::getenv(part_variable)) play(part);
  }
};
[[maybe_unused]] const auto* const child = testing::AddGlobalTestEnvironment(new Child);

/// A process that plays a part until it is killed.
class Process {
 public:
  explicit Process(const std::string& part, int out = -1) {
    std::vector<std::string> variables{std::string(part_variable) + "=" + part};
    for (char** variable = environ; *variable != nullptr; ++variable)
      if (std::string(*variable).rfind("GTEST", 0) != 0) variables.emplace_back(*variable);
    std::vector<char*> pointers;
    for (std::string& variable : variables) pointers.push_back(variable.data());
    pointers.push_back(nullptr);
    std::string program = "/proc/self/exe";
    std::string filter = "--gtest_brief=1";
    char* arguments[] = {program.data(), filter.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (out >= 0) posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, pointers.data()) != 0)
      pid_ = -1;
    posix_spawn_file_actions_destroy(&actions);
  }
  ~Process() {
    signal(SIGKILL);
    int status = 0;
    waitpid(pid_, &status, 0);
  }
  Process(const Process&) = delete;

  void signal(int number) const {
    if (pid_ > 0) kill(pid_, number);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

/// A coordinator in a process of its own.
struct CoordinatorProcess {
  JobKey key = JobKey::generate();
  std::unique_ptr<Process> process;
  std::string endpoint;

  CoordinatorProcess(int size, milliseconds timeout) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    process = std::make_unique<Process>("coordinator " + key.text() + " " + std::to_string(size) +
                                            " " + std::to_string(timeout.count()),
                                        ends[1]);
    close(ends[1]);
    for (char c = 0; read(ends[0], &c, 1) == 1;) {
      if (c == '\n' && endpoint.rfind("tcp://", 0) == 0) break;
      endpoint = c == '\n' ? "" : endpoint + c;
    }
    close(ends[0]);
  }

  Result<std::unique_ptr<Member>> join(int rank, int size) const {
    MemberOptions options;
    options.key = key;
    options.run = "test";
    options.rank = rank;
    options.size = size;
    options.coordinator = endpoint;
    options.timeout = patience;
    return Member::join(options);
  }
};

/// Rank 0 here, rank 1 a process on "beta".
struct TwoProcesses {
  Inbox inbox;
  JobKey key = JobKey::generate();
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<Process> other;
  std::unique_ptr<Member> member;

  explicit TwoProcesses(milliseconds timeout)
      : coordinator(std::move(Coordinator::start(coordinator_options(2, key, timeout)).value())) {
    other = std::make_unique<Process>("member " + coordinator->endpoint() + " " + key.text() +
                                      " 1 2 beta " + std::to_string(timeout.count()));
    auto joined = Member::join(member_options(*coordinator, 0, 2, key, timeout));
    if (!joined) throw joined.error();
    member = std::move(joined.value());
    inbox.listen(*member);
  }
};

TEST(ControlProcess, AnswersAcrossProcesses) {
  TwoProcesses world(patience);
  EXPECT_EQ(world.member->processes()[1].pid, world.other->pid());
  EXPECT_EQ(world.member->processes()[1].host(), "beta");
  EXPECT_EQ(world.member->processes()[1].identity(), world.member->processes()[0].identity());
  world.member->send(1, "hello");
  ASSERT_TRUE(world.inbox.wait_messages(1));
  EXPECT_EQ(world.inbox.messages()[0], std::pair(1, std::string("heard hello")));
}

TEST(ControlProcess, OneThatIsKilledIsReportedByRankHostAndPid) {
  TwoProcesses world(patience);
  world.other->signal(SIGKILL);
  ASSERT_TRUE(world.inbox.wait_losses(1));
  const PeerLost lost = world.inbox.losses()[0];
  EXPECT_EQ(lost.rank, 1);
  EXPECT_EQ(lost.host, "beta");
  EXPECT_EQ(lost.pid, world.other->pid());
  EXPECT_EQ(lost.reason, "its process ended") << "noticed by the event, not by the timeout";
  EXPECT_THAT(to_string(lost), HasSubstr("rank 1 on beta"));
  const Status barrier = world.member->barrier("nobody comes");
  ASSERT_FALSE(barrier);
  EXPECT_EQ(barrier.error().code(), ErrorCode::peer_lost);
  EXPECT_THAT(barrier.error().what(), HasSubstr("beta"));
}

TEST(ControlProcess, OneThatIsStoppedIsReportedAfterTheTimeout) {
  TwoProcesses world(seconds(3));
  const auto before = std::chrono::steady_clock::now();
  world.other->signal(SIGSTOP);
  ASSERT_TRUE(world.inbox.wait_losses(1));
  EXPECT_GT(std::chrono::steady_clock::now() - before, seconds(2));
  EXPECT_EQ(world.inbox.losses()[0].rank, 1);
  EXPECT_EQ(world.inbox.losses()[0].host, "beta");
  EXPECT_EQ(world.inbox.losses()[0].reason, "no heartbeat for 3 s");
}

TEST(ControlProcess, WaitsEndWhenAMemberIsLost) {
  TwoProcesses world(patience);
  std::jthread killer([&] {
    std::this_thread::sleep_for(milliseconds(50));
    world.other->signal(SIGKILL);
  });
  const auto value = world.member->store().get("never", patience);
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code(), ErrorCode::peer_lost);
  EXPECT_THAT(value.error().what(), HasSubstr("rank 1 on beta"));
}

TEST(ControlProcess, ALauncherCanTellBeforeTheSocketsDo) {
  TwoProcesses world(patience);
  world.coordinator->report_lost(1, "killed by signal 9");
  ASSERT_TRUE(world.inbox.wait_losses(1));
  EXPECT_EQ(world.inbox.losses()[0].reason, "killed by signal 9");
}

TEST(ControlProcess, AKilledCoordinatorIsReported) {
  Inbox inbox;
  CoordinatorProcess coordinator(1, patience);
  const auto joined = coordinator.join(0, 1);
  ASSERT_TRUE(joined) << joined.error().what();
  inbox.listen(*joined.value());
  EXPECT_EQ(joined.value()->lost_coordinator(), "");
  coordinator.process->signal(SIGKILL);
  ASSERT_TRUE(inbox.wait_losses(1));
  EXPECT_EQ(joined.value()->lost_coordinator(), coordinator.endpoint);
  EXPECT_EQ(inbox.losses()[0].rank, PeerLost::coordinator);
  EXPECT_EQ(inbox.losses()[0].reason, "its process ended");
  EXPECT_FALSE(joined.value()->barrier("without a coordinator"));
}

TEST(ControlProcess, ACoordinatorThatWasStoppedDoesNotTakeItsSleepForTheMembersSilence) {
  constexpr milliseconds timeout{2000};
  Inbox inbox;
  CoordinatorProcess coordinator(2, timeout);
  Process other("member " + coordinator.endpoint + " " + coordinator.key.text() +
                " 1 2 beta 60000");
  const auto joined = coordinator.join(0, 2);
  ASSERT_TRUE(joined) << joined.error().what();
  inbox.listen(*joined.value());
  // The member sleeps as well, so that nothing of it waits for the coordinator.
  other.signal(SIGSTOP);
  coordinator.process->signal(SIGSTOP);
  std::this_thread::sleep_for(timeout + timeout / 4);
  coordinator.process->signal(SIGCONT);
  std::this_thread::sleep_for(timeout / 10);
  other.signal(SIGCONT);
  joined.value()->send(1, "hello");
  ASSERT_TRUE(inbox.wait_messages(1));
  EXPECT_TRUE(joined.value()->store().put("key", "value"));  // whose answer is behind any loss
  EXPECT_THAT(inbox.losses(), testing::IsEmpty());
}

TEST(ControlProcess, AMemberThatWasStoppedDoesNotTakeItsSleepForTheOthersSilence) {
  constexpr milliseconds timeout{2000};
  const JobKey key = JobKey::generate();
  auto coordinator = std::move(Coordinator::start(coordinator_options(2, key)).value());
  Inbox inbox;
  auto joined = join_all(
      {member_options(*coordinator, 0, 2, key, timeout), member_options(*coordinator, 1, 2, key)});
  Member& sleeper = *joined[0].value();
  // A callback that sleeps stops the member's thread, as SIGSTOP would.
  std::atomic<int> lost{0};
  sleeper.open(
      [&](int from, std::string body) {
        std::this_thread::sleep_for(timeout + timeout / 4);
        sleeper.send(from, std::move(body));
      },
      [&](const PeerLost&) { ++lost; });
  inbox.listen(*joined[1].value());
  joined[1].value()->send(0, "sleep");
  ASSERT_TRUE(inbox.wait_messages(1));
  EXPECT_TRUE(sleeper.store().put("key", "value"));
  EXPECT_EQ(lost, 0);
}

}  // namespace
}  // namespace troupe
