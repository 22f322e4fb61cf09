// Rank 0 of a Gloo group beside a rank 1 that sends what no rank sends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "memory_store.h"
#include "runtime/transport/described.h"
#include "runtime/transport/gloo/mesh.h"
#include "runtime/transport/gloo/side_channel.h"
#include "runtime/transport/gloo/transport.h"
#include "runtime/transport/wait.h"
#include "tests/unit/runtime/transport/ranks.h"

namespace troupe::transport {
namespace {

using ::testing::HasSubstr;

const TensorMeta four{.shape = {4}};

struct Forger {
  MemoryStore store;
  std::unique_ptr<Communicator> zero;
  std::optional<Mesh> mesh;
  std::optional<SideChannel> side_channel;

  Forger() {
    std::jthread other([&] {
      TransportGroup group{.store = store, .rank = 1, .size = 2};
      mesh.emplace(group);
      group.name += "/side_channel";
      side_channel.emplace(group, mesh->secret());
    });
    zero = std::move(gloo.connect({.store = store, .rank = 0, .size = 2}).value());
  }

  /// The outcome of a receive at rank 0.
  std::string outcome() const {
    const Status received = wait_for(zero->receive(1, 1, four));
    return received ? "received" : received.error().what();
  }
};

ControlMessage offer_of_four() {
  ControlMessage message;
  message.kind = ControlMessage::Kind::offer;
  message.tag = 1;
  describe(four, message);
  return message;
}

TEST(GlooForger, IsReceivedFromWhereItKeepsToTheRules) {
  Forger forger;
  const std::vector<std::byte> tensor(16);
  forger.side_channel->send(0, offer_of_four(), tensor);
  EXPECT_TRUE(wait_for(forger.zero->receive(1, 1, four)));
}

TEST(GlooForger, EndsTheGroupWithWhatNoRankSends) {
  const std::vector<std::pair<const char*, std::function<void(ControlMessage&)>>> forgeries{
      {"invalid control message",
       [](ControlMessage& w) { w.kind = static_cast<ControlMessage::Kind>(77); }},
      {"no known type", [](ControlMessage& w) { w.dtype = 200; }},
      {"no known type", [](ControlMessage& w) { w.layout = 99; }},
      {"no known type", [](ControlMessage& w) { w.rank = 7; }},
      {"a part of a tensor", [](ControlMessage& w) { w.dims[0] = 5; }},
      {"", [](ControlMessage& w) { w.dims[0] = -4; }},
      {"",
       [](ControlMessage& w) {
         w.rank = 2;
         w.dims[0] = w.dims[1] = std::int64_t{1} << 62;
       }},
      {"a tensor that was not sent",
       [](ControlMessage& w) { w.kind = ControlMessage::Kind::done; }},
  };
  const std::vector<std::byte> tensor(16);
  for (std::size_t i = 0; i < forgeries.size(); ++i) {
    SCOPED_TRACE(i);
    Forger forger;
    ControlMessage message = offer_of_four();
    forgeries[i].second(message);
    forger.side_channel->send(0, message, tensor);
    const std::string reported = forger.outcome();
    EXPECT_NE(reported, "received");
    EXPECT_THAT(reported, HasSubstr(forgeries[i].first));
  }
}

// Whatever it sends, rank 0 ends by itself.
TEST(GlooForger, HarmsNobodyWithRandomMessages) {
  std::mt19937 random(1);
  for (int round = 0; round < 20; ++round) {
    Forger forger;
    for (int i = 0; i < 20; ++i) {
      ControlMessage message = offer_of_four();
      std::vector<std::byte> bytes(sizeof message), text(random() % 64);
      std::memcpy(bytes.data(), &message, sizeof message);
      for (int flips = 0; flips < 4; ++flips)
        bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      std::memcpy(static_cast<void*>(&message), bytes.data(), sizeof message);
      forger.side_channel->send(0, message, text);
    }
    forger.side_channel->flush(0, std::chrono::steady_clock::now() + std::chrono::seconds(20));
    forger.side_channel->cut();
    forger.mesh->cut();
    EXPECT_NE(forger.outcome(), "received");
  }
}

}  // namespace
}  // namespace troupe::transport
