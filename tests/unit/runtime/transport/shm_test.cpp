// Shared memory in particular: its blocks, what waits in it, and its ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <atomic>
#include <barrier>
#include <optional>
#include <set>
#include <thread>

#include "memory_store.h"
#include "runtime/transport/shm/arena.h"
#include "runtime/transport/shm/peer_connection.h"
#include "runtime/transport/shm/transport.h"
#include "runtime/transport/wait.h"
#include "tests/sanitized.h"
#include "tests/unit/runtime/transport/processes.h"
#include "tests/unit/runtime/transport/ranks.h"

namespace troupe {
namespace {

using namespace transport;
using test::bytes_of;
using test::Processes;
using test::values;
using ::testing::HasSubstr;
using std::chrono_literals::operator""ms;

constexpr std::size_t mebi = std::size_t{1} << 20;

struct Pair {
  std::unique_ptr<Communicator> zero, one;
};

/// Rank 1 with this deferral.
Pair connect_pair(DeliveryDeferral* deferral = nullptr) {
  auto ranks = test::connect("shm", 2, {nullptr, deferral});
  return {std::move(ranks[0]), std::move(ranks[1])};
}

TEST(Arena, ReusesTheFirstFreeBlock) {
  Arena arena;
  std::vector<Block> held;
  for (int i = 0; i < 4; ++i) held.push_back(arena.allocate(mebi - block_header_bytes));
  held[2].free();
  const Block again = arena.allocate(mebi - block_header_bytes);
  EXPECT_EQ(again.segment->number, held[2].segment->number);
  EXPECT_EQ(again.use, 2u);
  EXPECT_EQ(arena.allocate(mebi - block_header_bytes).segment->number, 4u);
}

TEST(Arena, SharesASegmentAmongSmallBlocks) {
  Arena arena;
  const Block one = arena.allocate(100), other = arena.allocate(100);
  EXPECT_EQ(one.segment, other.segment);
  EXPECT_NE(one.data(), other.data());
}

TEST(SharedMemory, RefusesMemoryWhoseSizeIsNotSealed) {
  const int fd = ::memfd_create("unsealed", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, 4096), 0);
  EXPECT_THROW(SharedMemory::open(Fd(fd), 4096), Error);
  const auto good = SharedMemory::create(4096);
  EXPECT_THROW(SharedMemory::open(Fd(::dup(good->fd())), 8192), Error);
  EXPECT_EQ(SharedMemory::open(Fd(::dup(good->fd())), 4096)->bytes(), 4096u);
}

TEST(ShmTransport, LetsTensorsWaitUntilAnActionEndsAndThenHasHandledThem) {
  DeliveryDeferral deferral;
  const Pair pair = connect_pair(&deferral);
  int waited = 0;
  constexpr int rounds = 200;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    const auto receive = pair.one->receive(0, round, {Shape{4}, DType::f32});
    {
      const DeliveryDeferral::Action action(&deferral, 1);
      ASSERT_TRUE(wait_for(pair.zero->send(1, round, values({4}, 0))));
      std::this_thread::sleep_for(1ms);  // its thread would have handled it meanwhile
      waited += receive->done() ? 0 : 1;
    }
    ASSERT_TRUE(receive->done()) << "round " << round;
  }
  EXPECT_GT(waited, rounds / 2);
}

// As threads of actors do: who is the last to go to work lets tensors wait, and whoever comes back
// catches up. Then both rest until the next round, so that a tensor they miss is missed for good.
// It is sent when they rest already, or meanwhile.
TEST(ShmTransport, MissesNothingWhileThreadsComeAndGo) {
  DeliveryDeferral deferral;
  const Pair pair = connect_pair(&deferral);
  constexpr std::uint64_t rounds = 20'000;
  std::atomic<std::uint64_t> at_rest = 0;
  std::atomic<bool> missed = false;
  std::barrier round_begins(3);
  const auto come_and_go = [&] {
    for (std::uint64_t i = 0; i < rounds; ++i) {
      round_begins.arrive_and_wait();
      if (missed) return round_begins.arrive_and_drop();
      { const DeliveryDeferral::Action action(&deferral, 2); }
      ++at_rest;
    }
  };
  std::thread one(come_and_go), other(come_and_go);
  for (std::uint64_t i = 0; i < rounds && !missed; ++i) {
    const auto receive = pair.one->receive(0, i, {Shape{4}, DType::f32});
    round_begins.arrive_and_wait();
    while (i % 2 == 0 && at_rest < 2 * (i + 1)) std::this_thread::yield();
    pair.zero->send(1, i, values({4}, 0));
    const auto limit = std::chrono::steady_clock::now() + 20'000ms;
    while (!receive->done() && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    missed = !receive->done();
  }
  round_begins.arrive_and_drop();
  one.join();
  other.join();
  EXPECT_FALSE(missed);
}

TEST(ShmTransport, NoticesTheEndOfAPeerWhoseTensorsItLetsWait) {
  DeliveryDeferral deferral;
  Pair pair = connect_pair(&deferral);
  const auto receive = pair.one->receive(0, 1, {Shape{4}, DType::f32});
  const DeliveryDeferral::Action action(&deferral, 1);
  pair.zero.reset();
  const Status status = wait_for(receive);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code(), ErrorCode::peer_lost);
}

TEST(ShmTransport, KeepsWhatASlowReceiverHasNotTaken) {
  Pair pair = connect_pair();
  constexpr int count = 2 * static_cast<int>(Ring::capacity);  // more than the ring holds
  std::vector<WorkPtr> sends;
  for (int i = 0; i < count; ++i) sends.push_back(pair.zero->send(1, 1, values({100}, i)));
  for (int i = 0; i < count; ++i) {
    const auto work = pair.one->receive(0, 1, {.shape = {100}});
    wait_for(work).value();
    EXPECT_EQ(bytes_of(work->tensor()) == bytes_of(values({100}, i)), true) << i;
  }
  for (const WorkPtr& work : sends) wait_for(work).value();
}

TEST(ShmTransport, ServesChangingSizes) {
  Pair pair = connect_pair();
  for (int i = 0; i < 60; ++i) {
    const std::int64_t count = i % 2 ? 900'000 - 1000 * i : 100 + i;
    pair.zero->send(1, 1, values({count}, i));
    const auto work = pair.one->receive(0, 1, {.shape = {count}});
    wait_for(work).value();
    EXPECT_EQ(bytes_of(work->tensor()) == bytes_of(values({count}, i)), true) << i;
  }
}

TEST(ShmTransport, HandsOutTheSameMemoryAgainOnceItIsDropped) {
  Pair pair = connect_pair();
  std::set<const void*> places;
  for (int i = 0; i < 100; ++i) {
    pair.zero->send(1, 1, values({1000}, i));
    const auto work = pair.one->receive(0, 1, {.shape = {1000}});
    wait_for(work).value();
    places.insert(work->tensor().raw());
  }
  EXPECT_LE(places.size(), 4u);
}

TEST(ShmTransport, KeepsReceivedTensorsBeyondBothEnds) {
  Pair pair = connect_pair();
  wait_for(pair.zero->send(1, 1, values({300'000}, 5))).value();
  const auto work = pair.one->receive(0, 1, {.shape = {300'000}});
  wait_for(work).value();
  const Tensor tensor = work->tensor();
  pair.zero.reset();
  pair.one.reset();
  EXPECT_EQ(bytes_of(tensor) == bytes_of(values({300'000}, 5)), true);
}

TEST(ShmTransport, LetsStrangersGoAndMeetsItsRanks) {
  MemoryStore store;
  std::unique_ptr<Communicator> zero, one;
  std::thread listener(
      [&] { zero = std::move(shm.connect({.store = store, .rank = 0, .size = 2}).value()); });
  const std::string word = store.get("g/0", 20'000ms).value().substr(0, 32);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = "troupe-" + word;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  std::vector<Fd> strangers;
  for (int i = 0; i < 300; ++i) {
    strangers.emplace_back(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(strangers.back().get(), reinterpret_cast<const sockaddr*>(&address),
                        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())),
              0);
    if (i % 3 == 1) {
      ASSERT_EQ(::send(strangers.back().get(), "junk", 4, 0), 4);
    }
    Signal hello;  // a rank, but with a token that was guessed
    hello.number = 1;
    hello.text = std::string(32, 'a');
    if (i % 3 == 2) {
      ASSERT_EQ(send_signal(strangers.back().get(), hello, {0}), SendOutcome::sent);
    }
  }
  // Of those that say nothing the first have made room for later ones.
  pollfd first{strangers.front().get(), POLLIN, 0};
  EXPECT_EQ(::poll(&first, 1, 20'000), 1);
  one = std::move(shm.connect({.store = store, .rank = 1, .size = 2}).value());
  listener.join();
  one->send(0, 1, values({4}, 1));
  EXPECT_TRUE(wait_for(zero->receive(1, 1, {.shape = {4}})));
}

TEST(ShmTransport, EndsWithAnErrorWhereNoDescriptorIsLeftForACall) {
  if (is_sanitized) GTEST_SKIP() << "a sanitizer needs descriptors to look at an object";
  Processes process(1, [](int, Store& store) {
    std::optional<Result<std::unique_ptr<Communicator>>> made;
    std::thread listener(
        [&] { made.emplace(shm.connect({.store = store, .rank = 0, .size = 2})); });
    const std::string name = "troupe-" + store.get("g/0", 20'000ms).value().substr(0, 32);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy(name.begin(), name.end(), address.sun_path + 1);
    const Fd stranger(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const auto next = static_cast<rlim_t>(Fd(::dup(stranger.get())).get());
    const rlimit none_left{next, next};
    if (::setrlimit(RLIMIT_NOFILE, &none_left) != 0 ||
        ::connect(stranger.get(), reinterpret_cast<const sockaddr*>(&address),
                  static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())) != 0)
      return 1;
    listener.join();
    return !*made && made->error().message().ends_with("Too many open files") ? 0 : 2;
  });
  EXPECT_EQ(process.wait(0), 0);
}

// The system tells the peer of a socket that ends with something unread in it of a broken
// connection, before the closing message.
TEST(ShmTransport, SaysGoodbyeThoughItHasNotReadAllItWasTold) {
  auto ranks = test::connect("shm", 3);
  ranks[1]->abort(Error(ErrorCode::timed_out, "enough"));  // it reads nothing any more
  ranks[0]->send(1, 7, values({1 << 16}, 0));              // a signal of new memory
  ranks[1].reset();
  const Status end = wait_for(ranks[0]->receive(1, 8, {.shape = {1}}));
  ASSERT_FALSE(end);
  EXPECT_THAT(end.error().what(), HasSubstr("rank 1 has closed its communicator"));
  const auto received = ranks[2]->receive(0, 9, {.shape = {8}});
  ranks[0]->send(2, 9, values({8}, 0));
  EXPECT_TRUE(wait_for(received));
}

}  // namespace
}  // namespace troupe
