// How an end is reported, whatever the transport.
#include "runtime/transport/communicator_base.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>

namespace troupe::transport {
namespace {

using ::testing::ElementsAre;

/// Rank 0 of three, which notes whom it tells why it ends.
class Reporting : public CommunicatorBase {
 public:
  Reporting() : CommunicatorBase("test", 0, 3, Device::cpu()) {}
  ~Reporting() override { close(); }

  std::map<int, std::string> told_before_the_end;

 protected:
  void warn(int peer, const Error& error) override {
    if (!ended()) told_before_the_end.emplace(peer, error.message());
  }

 private:
  void interrupt(const Error&) override {}
  void start_send(int, std::uint64_t, const Tensor&, const WorkPtr&) override {}
  void start_receive(int, std::uint64_t, const TensorMeta&, const ReceivePtr&) override {}
};

/// Rank 1 tells it the same while it tells rank 1.
class ToldMeanwhile final : public Reporting {
 public:
  ~ToldMeanwhile() override { other_.join(); }

 private:
  void warn(int peer, const Error& error) override {
    if (peer == 1 && !other_.joinable()) {
      other_ = std::thread([this] { end_as_reported(0, "rank 1 has found it too"); });
      // Time enough to end this rank, if that did not wait until all have the report.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    Reporting::warn(peer, error);
  }

  std::thread other_;
};

TEST(TransportEndpoint, TellsAllPeersWhyItEndsThoughOneOfThemEndsItMeanwhile) {
  ToldMeanwhile rank;
  rank.fail(Error(ErrorCode::bad_graph, "shapes differ"));
  EXPECT_THAT(rank.told_before_the_end,
              ElementsAre(std::pair(1, "shapes differ"), std::pair(2, "shapes differ")));
}

TEST(TransportEndpoint, PassesOnWhatItWasToldBeforeItEnds) {
  Reporting rank;
  rank.end_as_reported(static_cast<std::uint32_t>(ErrorCode::bad_graph),
                       "shapes differ\nsend alike");
  EXPECT_THAT(rank.told_before_the_end,
              ElementsAre(std::pair(1, "shapes differ"), std::pair(2, "shapes differ")));
  ASSERT_TRUE(rank.ended());
  EXPECT_EQ(rank.ended()->code(), ErrorCode::bad_graph);
  EXPECT_EQ(rank.ended()->remedy(), "send alike");
}

TEST(TransportEndpoint, TakesAnUnknownReasonForALostPeer) {
  Reporting rank;
  rank.end_as_reported(4711, "");
  EXPECT_EQ(rank.ended()->code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace troupe::transport
