#include "runtime/remote/peer_inbox.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/runtime/control/world.h"

namespace troupe::remote {
namespace {

/// The inbox for process 1, and what it delivered.
class PeerInboxTest : public ::testing::Test {
 protected:
  PeerInboxTest() { inbox_.open(on_message_, on_lost_); }
  ~PeerInboxTest() override { gate_->close(); }

  void take(const BridgeMessage& message) { inbox_.take(encode(message, graph_).bytes); }

  control_test::TestWorld world_{1};
  std::unique_ptr<DataPlane> data_plane_ =
      std::move(DataPlane::connect(*world_.members[0], {}).value());
  Graph graph_;
  std::shared_ptr<CallGate> gate_ = std::make_shared<CallGate>();
  std::vector<BridgeMessage> delivered_;
  std::vector<std::string> lost_;
  const Bridge::OnMessage on_message_ = [this](std::uint32_t, BridgeMessage message) {
    delivered_.push_back(std::move(message));
  };
  const Bridge::OnLost on_lost_ = [this](std::uint32_t, const Error& reason) {
    lost_.push_back(reason.what());
  };
  PeerInbox inbox_{1, *data_plane_, graph_, *gate_};
};

TEST_F(PeerInboxTest, HoldsACreditUntilItsTensorsAreSent) {
  const auto first = std::make_shared<Work>(), second = std::make_shared<Work>();
  inbox_.sent({.edge = 4, .slot = 2}, {first, second});
  take(Credit{.edge = 4, .slot = 1});
  EXPECT_EQ(delivered_.size(), 1) << "a credit for another slot waited";
  take(Credit{.edge = 4, .slot = 2});
  take(RunMessage(Vote{}));
  first->finish(success());
  EXPECT_EQ(delivered_.size(), 1);
  second->finish(Error(ErrorCode::peer_lost, "a send that failed holds no tensor either"));
  ASSERT_EQ(delivered_.size(), 3);
  EXPECT_EQ(std::get<Credit>(delivered_[1]).slot, 2);
  EXPECT_TRUE(std::holds_alternative<RunMessage>(delivered_[2]));
  take(Credit{.edge = 4, .slot = 2});
  EXPECT_EQ(delivered_.size(), 4) << "it waited for sends of the packet before";
}

TEST_F(PeerInboxTest, ReportsASenderOfBytesThatAreNoMessage) {
  inbox_.take("no message");
  EXPECT_TRUE(delivered_.empty());
  ASSERT_EQ(lost_.size(), 1);
  EXPECT_NE(lost_[0].find("rank 1"), std::string::npos) << lost_[0];
}

}  // namespace
}  // namespace troupe::remote
