// What reaches the threads of coordinators and members from outside, and what must not leave them.

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <future>

#include "runtime/control/detail/coordinator_loop.h"
#include "runtime/quiet_thread.h"
#include "world.h"

namespace troupe {
namespace {

using namespace control_test;
using testing::AllOf;
using testing::HasSubstr;
namespace fs = std::filesystem;

std::atomic<int> handled{0};

/// A handler that does nothing, for as long as this lives.
class Handled {
 public:
  explicit Handled(int number) : number_(number) {
    struct sigaction action {};
    action.sa_handler = [](int) { ++handled; };
    sigaction(number_, &action, &before_);
  }
  ~Handled() { sigaction(number_, &before_, nullptr); }

 private:
  int number_;
  struct sigaction before_ {};
};

/// Sends a signal to every thread of this process but the caller's.
void signal_threads(int number) {
  for (const auto& entry : fs::directory_iterator("/proc/self/task")) {
    const int thread = std::stoi(entry.path().filename());
    if (thread != gettid()) syscall(SYS_tgkill, getpid(), thread, number);
  }
}

TEST(ControlThreads, AreNotDisturbedBySignalsWithAHandler) {
  const Handled profiler(SIGPROF);
  handled = 0;
  std::vector<Inbox> inboxes(2);
  TestWorld world(2);
  inboxes[0].listen(*world.members[0]);
  inboxes[1].listen(*world.members[1]);
  for (int i = 0; i < 20; ++i) {
    signal_threads(SIGPROF);
    world.members[0]->send(1, "x");
    ASSERT_TRUE(inboxes[1].wait_messages(static_cast<std::size_t>(i) + 1));
  }
  EXPECT_TRUE(world.members[0]->store().put("key", "value"));
  // To the process, where the only thread that the test has started blocks it.
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGPROF);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  kill(getpid(), SIGPROF);
  EXPECT_TRUE(world.members[1]->store().get("key", patience));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  for (const Inbox& inbox : inboxes) EXPECT_TRUE(inbox.losses().empty());
  EXPECT_EQ(handled, 1) << "only the test's own thread takes it";
}

/// Sends a signal to a thread again and again, for as long as this lives.
class Disturber {
 public:
  explicit Disturber(int thread)
      : thread_([thread](const std::stop_token& stop) {
          while (!stop.stop_requested()) {
            syscall(SYS_tgkill, getpid(), thread, SIGPROF);
            std::this_thread::sleep_for(std::chrono::microseconds(20));
          }
        }) {}

 private:
  std::jthread thread_;
};

// Whoever calls a member does so on a thread of its own, which a profiler interrupts.
TEST(ControlThreads, ASenderIsNotDisturbedBySignalsWithAHandler) {
  const Handled profiler(SIGPROF);
  Inbox inbox;
  TestWorld world(2);
  inbox.listen(*world.members[1]);
  const Disturber disturber(gettid());
  constexpr int count = 20'000;
  for (int i = 0; i < count; ++i) world.members[0]->send(1, "x");
  EXPECT_TRUE(world.members[0]->store().put("key", "value"));
  EXPECT_TRUE(inbox.wait_messages(count));
}

TEST(ControlThreads, ASignalOnlyWakesACoordinatorThatDoesNotBlockIt) {
  const Handled profiler(SIGPROF);
  const JobKey key = JobKey::generate();
  control::CoordinatorLoop loop(coordinator_options(1, key));
  std::promise<int> running;
  std::jthread thread([&] {
    running.set_value(gettid());
    loop.run();
  });
  MemberOptions options;
  options.key = key;
  options.run = "test";
  options.coordinator = loop.endpoint();
  {
    const Disturber disturber(running.get_future().get());
    const auto member = Member::join(options);
    ASSERT_TRUE(member) << member.error().what();
    for (int i = 0; i < 500; ++i) ASSERT_TRUE(member.value()->store().put("key", "value"));
  }
  loop.stop();
}

TEST(ControlThreads, ACoordinatorThatBreaksDownIsLostToItsMembers) {
  const JobKey key = JobKey::generate();
  control::CoordinatorLoop loop(coordinator_options(1, key));
  std::jthread thread([&] { loop.run(); });
  MemberOptions options;
  options.key = key;
  options.run = "test";
  options.coordinator = loop.endpoint();
  options.timeout = patience;
  Inbox inbox;
  const auto member = std::move(Member::join(options).value());
  inbox.listen(*member);
  loop.post([] { throw std::runtime_error("out of everything"); });
  EXPECT_TRUE(loop.wait_for_end(patience));
  ASSERT_TRUE(inbox.wait_losses(1));
  EXPECT_EQ(inbox.losses()[0].rank, PeerLost::coordinator);
}

TEST(ControlThreads, AMemberWhoseCallbackThrowsEndsItsMembershipAndNothingElse) {
  Inbox inbox;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<PeerLost> reported;
  TestWorld world(2);
  inbox.listen(*world.members[0]);
  for (int i = 0; i < 10; ++i) world.members[0]->send(1, "x");
  // Some wait by then, perhaps all.
  world.members[1]->open([](int, const std::string&) { throw std::runtime_error("cannot"); },
                         [&](const PeerLost& lost) {
                           const std::lock_guard lock(mutex);
                           reported = lost;
                           changed.notify_all();
                         });
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, patience, [&] { return reported.has_value(); }));
    EXPECT_EQ(reported->rank, PeerLost::coordinator);
    EXPECT_THAT(reported->reason, HasSubstr("cannot"));
  }
  ASSERT_TRUE(inbox.wait_losses(1));
  EXPECT_EQ(inbox.losses()[0].rank, 1);
  EXPECT_FALSE(world.members[1]->barrier("any"));
  world.members[1]->send(0, "of no consequence");
}

TEST(ControlThreads, APlaceThatCannotBeIsAnErrorAlsoWhereItIsFoundLater) {
  const std::string name = "tcp://login-node.invalid:29400", word = "somewhere";
  for (const std::string& place : {name, word}) {
    MemberOptions options;
    options.key = JobKey::generate();
    options.run = "test";
    options.timeout = patience;
    options.coordinator = "tcp://127.0.0.1:9";  // nobody is there
    options.find_coordinator = [&] { return place; };
    const auto joined = Member::join(options);
    ASSERT_FALSE(joined);
    EXPECT_THAT(joined.error().what(), AllOf(HasSubstr("job file"), HasSubstr(place)));
  }
}

TEST(QuietThread, LeavesTheMaskOfItsStarterAsItWas) {
  sigset_t before, within, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  quiet_thread([&] { pthread_sigmask(SIG_SETMASK, nullptr, &within); }).join();
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  EXPECT_EQ(sigismember(&within, SIGPROF), 1);
  EXPECT_EQ(sigismember(&within, SIGSEGV), 0);
  for (int number = 1; number < 32; ++number)
    EXPECT_EQ(sigismember(&before, number), sigismember(&after, number)) << number;
}

}  // namespace
}  // namespace troupe
