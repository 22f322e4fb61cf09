// Ends of all kinds, which Gloo itself does not tell apart.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/transport/wait.h"
#include "tests/unit/runtime/transport/ranks.h"

namespace troupe {
namespace {

using std::chrono_literals::operator""ms;
using test::run_ranks;
using test::values;
using ::testing::HasSubstr;

constexpr int rounds = 12;  // what is looked for happens between threads, so not every time

/// Starts a tensor of `count` floats to the next rank, and one from the rank before.
std::vector<WorkPtr> pass_on(Communicator& ranks, std::uint64_t tag, std::int64_t count) {
  const int size = ranks.size(), rank = ranks.rank();
  return {ranks.send((rank + 1) % size, tag, values({count}, rank)),
          ranks.receive((rank + size - 1) % size, tag, {.shape = {count}})};
}

TEST(GlooEnds, AreExplainedAtAllRanksThoughTensorsAreUnderWay) {
  for (int round = 0; round < rounds; ++round)
    run_ranks("gloo", 4, [&](Communicator& ranks) {
      for (std::uint64_t i = 0; i < 4; ++i) pass_on(ranks, 100 + i, 1 << 18);
      if (ranks.rank() == 3) ranks.send(0, 8, values({5}, 0));
      const Status status = wait_for(ranks.receive((ranks.rank() + 3) % 4, 8, {.shape = {4}}));
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), ErrorCode::bad_graph) << status.error().what();
    });
}

TEST(GlooEnds, AreExplainedAtAllRanksThoughTwoFindMistakesAtOnce) {
  for (int round = 0; round < rounds; ++round)
    run_ranks("gloo", 4, [&](Communicator& ranks) {
      pass_on(ranks, 1, 1 << 18);
      if (ranks.rank() < 2)
        ranks.send(ranks.rank() + 2, 3, values({4}, 0));
      else
        ranks.receive(ranks.rank() - 2, 3, {.shape = {5}});
      const Status status = wait_for(ranks.receive((ranks.rank() + 1) % 4, 99, {.shape = {1}}));
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().code(), ErrorCode::bad_graph) << status.error().what();
    });
}

TEST(GlooEnds, OfASenderHalfWayThroughATensorEndTheReceiveAndNothingElse) {
  for (int round = 0; round < rounds; ++round) {
    auto ranks = test::connect("gloo", 3);
    const std::array<ReceivePtr, 2> receives{ranks[1]->receive(0, 1, {.shape = {2 << 20}}),
                                             ranks[1]->receive(0, 2, {.shape = {4 << 20}})};
    ranks[0]->send(1, 1, Tensor::zeros({2 << 20}));
    ranks[0]->send(1, 2, Tensor::zeros({4 << 20}));
    std::this_thread::sleep_for(std::chrono::microseconds(400 * round));
    ranks[0].reset();
    for (const ReceivePtr& receive : receives)
      if (const Status status = wait_for(receive); !status) {
        EXPECT_THAT(status.error().what(), HasSubstr("rank 0 has closed its communicator"));
      }
    const ReceivePtr other = ranks[1]->receive(2, 5, {.shape = {4}});
    ranks[2]->send(1, 5, values({4}, 0));
    EXPECT_TRUE(wait_for(other));
  }
}

TEST(GlooEnds, OfARankThatSendsAndReceivesAreNamedAtItsPeer) {
  for (int round = 0; round < rounds; ++round) {
    auto ranks = test::connect("gloo", 2);
    const auto zero = pass_on(*ranks[0], 1, 4 << 20), one = pass_on(*ranks[1], 1, 4 << 20);
    std::this_thread::sleep_for(std::chrono::microseconds(500 * round));
    ranks[0].reset();
    for (const WorkPtr& work : one)
      if (const Status status = wait_for(work); !status) {
        EXPECT_THAT(status.error().what(), HasSubstr("rank 0 has closed its communicator"));
      }
  }
}

TEST(GlooEnds, ComeBehindSmallTensorsThoughThePeerSpeaksMeanwhile) {
  constexpr int count = 300;
  const TensorMeta meta{.shape = {1024}};
  for (int round = 0; round < rounds; ++round) {
    auto ranks = test::connect("gloo", 2);
    std::atomic<bool> over = false;
    std::jthread speaks([&] {
      while (!over) ranks[1]->send(0, 7, values({4}, 1));
    });
    for (int i = 0; i < count; ++i) wait_for(ranks[0]->send(1, 1, values({1024}, 0))).value();
    ranks[0].reset();
    for (int i = 0; i < count; ++i) {
      const Status status = wait_for(ranks[1]->receive(0, 1, meta));
      EXPECT_TRUE(status) << i << ": " << status.error().what();
      if (!status) break;
    }
    over = true;
  }
}

TEST(GlooEnds, MayComeWhileCallbacksStartSends) {
  for (int round = 0; round < rounds; ++round) {
    auto ranks = test::connect("gloo", 2);
    Communicator& zero = *ranks[0];
    std::atomic<std::uint64_t> begun = 0;
    for (int i = 0; i < 200; ++i)
      zero.receive(1, 1, {.shape = {4}})->then([&](const Status& status) {
        if (status) zero.send(1, 50 + begun++, values({4}, 0));
      });
    std::jthread other([&] {
      for (int i = 0; i < 200; ++i) ranks[1]->send(0, 1, values({4}, 1));
    });
    while (begun < 3) std::this_thread::yield();
    ranks[0].reset();
  }
}

}  // namespace
}  // namespace troupe
