#include "runtime/remote/member_bridge.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/unit/runtime/control/world.h"

namespace troupe {
namespace {

using control_test::patience;
using control_test::TestWorld;

/// Keeps the run messages that it receives.
class MessageLog {
 public:
  void add(std::uint32_t from, const BridgeMessage& message) {
    const auto* run_message = std::get_if<RunMessage>(&message);
    if (!run_message) return;
    const std::lock_guard lock(mutex_);
    messages_.emplace_back(from, *run_message);
    changed_.notify_all();
  }

  template <class T>
  bool wait_for(std::uint32_t from) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, patience, [&] {
      return std::ranges::any_of(messages_, [&](const auto& heard) {
        return heard.first == from && std::holds_alternative<T>(heard.second);
      });
    });
  }

  /// Whether there are so many within this time.
  bool has(std::size_t count, std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return messages_.size() >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::uint32_t, RunMessage>> messages_;
};

/// Three processes of one host as threads of this one; the third takes no part in the run.
class MemberBridgeTest : public ::testing::Test {
 protected:
  MemberBridgeTest() : bulks_(3) {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < bulks_.size(); ++rank)
      threads.emplace_back([this, rank] {
        bulks_[rank] = std::move(DataPlane::connect(*world_.members[rank], {}).value());
      });
    threads.clear();
    for (std::size_t rank = 0; rank < 2; ++rank) {
      logs_.push_back(std::make_shared<MessageLog>());
      bridges_.push_back(make_member_bridge(*world_.members[rank], *bulks_[rank], graph_));
      bridges_[rank]->open(
          [log = logs_[rank]](std::uint32_t from, const BridgeMessage& message) {
            log->add(from, message);
          },
          [](std::uint32_t, const Error&) {});
    }
  }
  ~MemberBridgeTest() override {
    for (const auto& bridge : bridges_) bridge->close();
  }

  Graph graph_;
  TestWorld world_{3};
  std::vector<std::unique_ptr<DataPlane>> bulks_;
  std::vector<std::shared_ptr<MessageLog>> logs_;
  std::vector<std::shared_ptr<Bridge>> bridges_;
};

TEST_F(MemberBridgeTest, CarriesRunMessagesBothWays) {
  bridges_[0]->send(1, RunMessage(Flushed{3}));
  bridges_[1]->send(0, RunMessage(Vote{}));
  EXPECT_TRUE(logs_[1]->wait_for<Flushed>(0));
  EXPECT_TRUE(logs_[0]->wait_for<Vote>(1));
}

// It takes them earlier where its thread is awake just then, on a busy machine for many rounds.
TEST_F(MemberBridgeTest, LeavesArrivalsInSharedMemoryUntilTheActionEnds) {
  std::size_t waited = 0;
  const auto end = std::chrono::steady_clock::now() + patience;
  for (std::size_t round = 0; waited < 5; ++round) {
    ASSERT_LT(std::chrono::steady_clock::now(), end) << waited << " of " << round << " waited";
    {
      const DeliveryDeferral::Action action(&bulks_[1]->deferral(), 1);
      bridges_[0]->send(1, RunMessage(Vote{}));
      waited += logs_[1]->has(round + 1, std::chrono::milliseconds(2)) ? 0 : 1;
    }
    ASSERT_TRUE(logs_[1]->has(round + 1, patience)) << "round " << round;
  }
}

// Process 1 has ended its data plane for the loss of process 2 already; process 0, which does not
// know yet, writes where no thread reads any more.
TEST_F(MemberBridgeTest, RepeatsTheEndOfARunWhenTheDataPlaneEndedFirst) {
  bulks_[1]->abort(Error(ErrorCode::peer_lost, "process 2 is lost"));
  bridges_[0]->send(1, RunMessage(EndRun{}));
  world_.members[2].reset();  // without a closing message
  EXPECT_TRUE(logs_[1]->wait_for<EndRun>(0));
}

TEST_F(MemberBridgeTest, RepeatsThatAProcessHasEnded) {
  bulks_[0]->abort(Error(ErrorCode::peer_lost, "process 2 is lost"));
  bridges_[1]->send(0, RunMessage(ProcessEnded{}));
  world_.members[2].reset();
  EXPECT_TRUE(logs_[0]->wait_for<ProcessEnded>(1));
}

/// A message whose sender takes its time to look at it.
struct Slow {
  std::atomic<bool>* begun = nullptr;
  std::atomic<bool>* ended = nullptr;
  std::uint32_t value = 0;
  static void members(auto& self, auto& visit) {
    if (self.begun) {
      *self.begun = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      *self.ended = true;
    }
    visit(self.value);
  }
};
struct Talker final : Actor {
  Output<Slow> out{this, "out"};
  ActionLabel act() override { return {"talk", {}}; }
};
struct Hearer final : Actor {
  Input<Slow> in{this, "in"};
  ActionLabel act() override { return {"hear", {}}; }
};

// What it uses, the data plane above all, goes when it is closed.
TEST_F(MemberBridgeTest, WaitsInCloseForSends) {
  Graph graph;
  graph.connect(graph.add<Talker>("talker"), &Talker::out, graph.add<Hearer>("hearer"),
                &Hearer::in);
  const auto bridge = make_member_bridge(*world_.members[2], *bulks_[2], graph);
  std::atomic<bool> begun = false, ended = false;
  std::jthread sender([&] {
    bridge->send(0, Packet{.payload = std::make_shared<Slow>(Slow{&begun, &ended})});
  });
  while (!begun) std::this_thread::yield();
  bridge->close();
  EXPECT_TRUE(ended);
  bulks_[2].reset();
  bridge->send(0, RunMessage(EndRun{}));  // has no effect
}

}  // namespace
}  // namespace troupe
