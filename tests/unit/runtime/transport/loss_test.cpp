// What is left when a process is killed, stopped, or never comes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "memory_store.h"
#include "runtime/transport/wait.h"
#include "tests/unit/runtime/transport/processes.h"
#include "tests/unit/runtime/transport/ranks.h"

namespace troupe {
namespace {

using test::bytes_of;
using test::connect_one;
using test::Processes;
using test::values;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;

class EveryProcessTransport : public ::testing::TestWithParam<std::string> {};
using std::chrono_literals::operator""ms;

/// Sends `tensor` to the next rank and returns the one of the rank before.
Result<Tensor> pass_on(Communicator& ranks, const Tensor& tensor) {
  const int size = ranks.size(), rank = ranks.rank();
  const WorkPtr sent = ranks.send((rank + 1) % size, 1, tensor);
  const ReceivePtr received = ranks.receive((rank + size - 1) % size, 1, TensorMeta::of(tensor));
  for (const WorkPtr& work : {sent, WorkPtr(received)})
    if (const Status status = wait_for(work); !status) return status.error();
  return received->tensor();
}

/// Passes tensors on until that fails; the failure.
Error pass_on_until_lost(Communicator& ranks) {
  for (;;)
    if (const auto passed = pass_on(ranks, values({1 << 20}, ranks.rank())); !passed)
      return passed.error();
}

TEST_P(EveryProcessTransport, SurvivorsOfAKilledPeerHearOfItAndGoOnWithoutIt) {
  Processes ranks(3, [](int rank, Store& store) {
    auto first = std::move(connect_one(GetParam(), store, rank, 3, "one").value());
    pass_on(*first, values({8}, rank)).value();
    store.put("ready" + std::to_string(rank), "yes").value();
    if (rank == 2) {
      pass_on_until_lost(*first);
      return 1;
    }
    const auto pending = first->receive(2, 9, {.shape = {5}});
    const Error error = pass_on_until_lost(*first);
    if (error.code() != ErrorCode::peer_lost || wait_for(pending)) return 2;
    first.reset();
    auto second = std::move(connect_one(GetParam(), store, rank, 2, "two").value());
    const Tensor other = pass_on(*second, values({8}, rank)).value();
    return bytes_of(other) == bytes_of(values({8}, 1 - rank)) ? 0 : 3;
  });
  // Rank 2 may have its first tensor while the others still wait for theirs.
  for (const char* key : {"ready0", "ready1", "ready2"}) ranks.store().get(key, 20'000ms).value();
  std::this_thread::sleep_for(50ms);
  ::kill(ranks.pid(2), SIGKILL);
  EXPECT_EQ(ranks.wait(0), 0);
  EXPECT_EQ(ranks.wait(1), 0);
  EXPECT_EQ(ranks.wait(2), -SIGKILL);
}

TEST_P(EveryProcessTransport, AbortEndsWaitsForAStoppedPeerAtOnce) {
  Processes ranks(2, [](int rank, Store& store) {
    auto pair = std::move(connect_one(GetParam(), store, rank, 2).value());
    if (rank == 1) {
      store.put("ready", "yes").value();
      ::raise(SIGSTOP);
      return 1;
    }
    store.get("ready", 20'000ms).value();
    std::this_thread::sleep_for(50ms);
    const std::vector<WorkPtr> works{
        pair->receive(1, 1, {.shape = {4}}), pair->receive(1, 3, {.shape = {1 << 20}}),
        GetParam() == "gloo" ? pair->send(1, 1, values({1 << 22}, 0))
                             : WorkPtr(pair->receive(1, 2, {.shape = {4}}))};
    std::thread control([&] {
      std::this_thread::sleep_for(50ms);
      pair->abort(Error(ErrorCode::peer_lost, "rank 1 hangs"));
    });
    int status = 0;
    for (const WorkPtr& work : works) {
      const Status end = wait_for(work);
      if (end || end.error().message() != "rank 1 hangs") status = 2;
    }
    control.join();
    return status;
  });
  EXPECT_EQ(ranks.wait(0), 0);
}

TEST_P(EveryProcessTransport, NamesARankThatDoesNotCome) {
  MemoryStore store;
  const auto start = Clock::now();
  const auto none =
      transport_named(GetParam()).connect({.store = store, .rank = 0, .size = 2, .timeout = 100ms});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), ErrorCode::timed_out);
  EXPECT_THAT(none.error().what(), HasSubstr("1"));
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
}

TEST(ShmTransport, LeavesNothingBehindWhenAllAreKilled) {
  Processes ranks(2, [](int rank, Store& store) {
    auto pair = std::move(connect_one("shm", store, rank, 2).value());
    pass_on(*pair, values({1 << 18}, rank)).value();
    store.put("ready" + std::to_string(rank), "yes").value();
    pass_on_until_lost(*pair);
    return 1;
  });
  for (const char* key : {"ready0", "ready1"}) ranks.store().get(key, 20'000ms).value();
  const std::string name = ranks.store().get("g/0", 0ms).value().substr(0, 32);
  for (int rank = 0; rank < 2; ++rank) ::kill(ranks.pid(rank), SIGKILL);
  for (int rank = 0; rank < 2; ++rank) ranks.wait(rank);
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find("troupe"), std::string::npos) << entry.path();
  std::ifstream sockets("/proc/net/unix");
  for (std::string line; std::getline(sockets, line);)
    EXPECT_EQ(line.find(name), std::string::npos) << line;
}

/// A store that does not give the token of a group away.
class StoreOfAStranger final : public Store {
 public:
  explicit StoreOfAStranger(Store& store) : store_(store) {}
  Status put(const std::string& key, std::string value) override {
    return store_.put(key, std::move(value));
  }
  Result<std::string> get(const std::string& key, std::chrono::milliseconds timeout) override {
    if (key.ends_with("/token")) return std::string(32, '0');
    return store_.get(key, timeout);
  }
  Result<std::string> claim(const std::string& key, std::chrono::milliseconds timeout) override {
    return store_.claim(key, timeout);
  }

 private:
  Store& store_;
};

TEST(GlooTransport, FindsAStrangerOutWhoDoesNotKnowTheToken) {
  MemoryStore store;
  StoreOfAStranger guess(store);
  std::jthread other([&] { EXPECT_FALSE(connect_one("gloo", guess, 1, 2)); });
  const auto rank = connect_one("gloo", store, 0, 2);
  ASSERT_FALSE(rank);
  EXPECT_EQ(rank.error().code(), ErrorCode::peer_lost);
  EXPECT_THAT(rank.error().what(), HasSubstr("connected in place of rank 1"));
}

INSTANTIATE_TEST_SUITE_P(Transports, EveryProcessTransport, ::testing::Values("shm", "gloo"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace troupe
