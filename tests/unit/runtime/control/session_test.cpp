// Order and exactly-once over connections that lose messages: without sockets, from a seed.

#include "runtime/control/detail/session.h"

#include <gmock/gmock.h>

#include <random>

namespace troupe::control {
namespace {

/// Two sessions joined by two queues, which keep order and lose everything in them when they break.
class Pair {
 public:
  Pair()
      : left([this](const std::string& frame) { to_right.push_back(frame); }),
        right([this](const std::string& frame) { to_left.push_back(frame); }) {}

  void send(const std::string& body) {
    wire::Envelope envelope;
    envelope.set_message(body);
    left.send({}, envelope, now);
  }

  void carry_one() {
    if (!to_right.empty()) {
      const auto envelope = decode(to_right.front());
      to_right.pop_front();
      ASSERT_TRUE(envelope);
      if (right.receive({}, *envelope, counters, now)) arrived.push_back(envelope->message());
    }
    if (!to_left.empty()) {
      const auto envelope = decode(to_left.front());
      to_left.pop_front();
      ASSERT_TRUE(envelope);
      left.receive({}, *envelope, counters, now);
    }
  }

  void pass(Clock::duration time) {
    now += time;
    left.maintain({}, now);
    right.maintain({}, now);
  }

  void carry_all() {
    while (!to_right.empty() || !to_left.empty()) carry_one();
  }

  std::deque<std::string> to_right;
  std::deque<std::string> to_left;
  std::vector<std::string> arrived;
  ControlCounters counters;
  Clock::time_point now = Clock::now();
  Session left;
  Session right;
};

TEST(ControlSession, AcknowledgesAloneOnlyWhatHasWaitedForHalfATick) {
  Pair pair;
  pair.send("a");
  pair.carry_all();
  pair.pass(Session::tick / 5);
  EXPECT_TRUE(pair.to_left.empty()) << "an answer may carry it";
  pair.pass(Session::tick / 2);
  EXPECT_EQ(pair.to_left.size(), 1u);
  pair.carry_all();
  EXPECT_TRUE(pair.left.is_quiet());
  EXPECT_TRUE(pair.right.is_quiet());
}

TEST(ControlSession, SettlesWhatItOwesAtOnceAndOnce) {
  Pair pair;
  pair.send("a");
  pair.carry_all();
  pair.right.settle({});
  pair.right.settle({});
  EXPECT_EQ(pair.to_left.size(), 1u);
  pair.carry_all();
  EXPECT_TRUE(pair.left.is_acknowledged());
}

TEST(ControlSession, DeliversEachMessageOnceAndInOrderWhateverIsLost) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Pair pair;
    std::vector<std::string> sent;
    for (int event = 0; event < 400; ++event) {
      switch (random() % 8) {
        case 0:  // the connection breaks
          pair.to_right.clear();
          pair.to_left.clear();
          break;
        case 1:
          pair.pass(std::chrono::milliseconds(random() % 200));
          break;
        case 2:
        case 3:
          sent.push_back(std::to_string(event));
          pair.send(sent.back());
          break;
        default:
          pair.carry_one();
      }
    }
    for (int round = 0; round < 20; ++round) {
      pair.carry_all();
      pair.pass(std::chrono::seconds(1));
    }
    pair.carry_all();
    ASSERT_EQ(pair.arrived, sent) << "seed " << seed;
    EXPECT_TRUE(pair.left.is_quiet()) << "seed " << seed;
  }
}

TEST(ControlSession, SendsNothingAgainWhileNothingIsLost) {
  Pair pair;
  for (int i = 0; i < 1000; ++i) {
    pair.send("x");
    if (i % 7 == 0) pair.pass(std::chrono::milliseconds(60));  // a slow peer is not a loss
    if (i % 100 == 0) pair.carry_all();
  }
  pair.carry_all();
  pair.pass(std::chrono::seconds(1));
  pair.carry_all();
  EXPECT_EQ(pair.arrived.size(), 1000u);
  EXPECT_EQ(pair.counters.resent, 0u);
  EXPECT_EQ(pair.counters.duplicates, 0u);
}

TEST(ControlSession, AsksForASignOfLifeOnlyWhereNoneHasCome) {
  constexpr Clock::duration heartbeat = std::chrono::seconds(1);
  Pair pair;
  pair.now += heartbeat;
  pair.left.keep_alive({}, pair.now, heartbeat);
  ASSERT_EQ(pair.to_right.size(), 1u);
  pair.carry_all();
  pair.now += heartbeat / 4;
  pair.left.keep_alive({}, pair.now, heartbeat);
  pair.right.keep_alive({}, pair.now, heartbeat);
  EXPECT_TRUE(pair.to_right.empty()) << "the echo was one";
  EXPECT_TRUE(pair.to_left.empty()) << "so was the pulse";
  pair.now += heartbeat / 2;
  pair.right.keep_alive({}, pair.now, heartbeat);
  EXPECT_EQ(pair.to_left.size(), 1u);
}

TEST(ControlSession, DropsAReplayedMessage) {
  Pair pair;
  pair.send("once");
  const std::string recorded = pair.to_right.front();
  pair.carry_all();
  pair.to_right.push_back(recorded);
  pair.carry_all();
  EXPECT_EQ(pair.arrived, std::vector<std::string>{"once"});
  EXPECT_EQ(pair.counters.duplicates, 1u);
}

TEST(ControlSession, DoesNotBelieveAcknowledgementsOfWhatWasNeverSent) {
  Pair pair;
  pair.send("kept");
  wire::Envelope lie;
  lie.set_version(wire_version);
  lie.set_acknowledged(2);
  lie.mutable_echo();
  EXPECT_FALSE(pair.left.receive({}, lie, pair.counters, pair.now));
  EXPECT_EQ(pair.counters.malformed, 1u);
  EXPECT_FALSE(pair.left.is_acknowledged());
}

TEST(ControlWire, RefusesBytesThatAreNoEnvelope) {
  EXPECT_FALSE(decode(""));
  EXPECT_FALSE(decode("GET / HTTP/1.1\r\n\r\n"));
  EXPECT_FALSE(decode(std::string(1000, '\xff')));
  wire::Envelope envelope;
  envelope.set_version(wire_version);
  EXPECT_FALSE(decode(encode(envelope))) << "no body";
  envelope.set_message("x");
  EXPECT_FALSE(decode(encode(envelope))) << "a message without a sequence number";
  envelope.set_sequence(1);
  EXPECT_TRUE(decode(encode(envelope)));
  envelope.set_version(0);
  EXPECT_FALSE(decode(encode(envelope))) << "no version";
}

TEST(ControlWire, RefusesAWelcomeWhoseListsDoNotFit) {
  wire::Envelope envelope;
  envelope.set_version(wire_version);
  envelope.set_sequence(1);
  wire::Welcome& welcome = *envelope.mutable_welcome();
  welcome.add_hosts()->set_name("a");
  welcome.add_host(0);
  welcome.add_port(1);
  welcome.add_pid(1);
  welcome.add_session(1);
  EXPECT_TRUE(decode(encode(envelope)));
  welcome.set_host(0, 1);
  EXPECT_FALSE(decode(encode(envelope))) << "a host that is not there";
  welcome.set_host(0, 0);
  welcome.set_rank(1);
  EXPECT_FALSE(decode(encode(envelope))) << "a rank beyond the world";
  welcome.set_rank(0);
  welcome.add_port(2);
  EXPECT_FALSE(decode(encode(envelope))) << "lists of different lengths";
}

}  // namespace
}  // namespace troupe::control
