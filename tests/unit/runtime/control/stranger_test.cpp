// Without the job's key nothing is learned and nothing changes; with it, only what belongs here.

#include "stranger.h"

#include <fmt/format.h>

#include <random>

#include "world.h"

namespace troupe {
namespace {

using namespace control_test;
using testing::HasSubstr;
using testing::Not;

constexpr milliseconds quiet_time{300};  // within which an answer would have come

/// A barrier still works, nobody was lost, and the stranger's words reached nobody.
void expect_untouched(TestWorld& world) {
  std::vector<std::jthread> threads;
  for (auto& member : world.members)
    threads.emplace_back([&] { EXPECT_TRUE(member->barrier("untouched")); });
  threads.clear();
  for (const ControlCounters& counters :
       {world.coordinator->counters(), world.members[0]->counters()}) {
    EXPECT_EQ(counters.malformed, 0u);
    EXPECT_EQ(counters.foreign, 0u);
    EXPECT_EQ(counters.stale, 0u);
  }
}

/// The doors of a job: the coordinator's and a member's.
std::vector<std::string> doors(const TestWorld& world) {
  return {world.coordinator->endpoint(), world.members[0]->endpoint()};
}

TEST(ControlStranger, WithPlainZeroMqLearnsAndChangesNothing) {
  TestWorld world(2);
  for (const std::string& door : doors(world)) {
    Stranger stranger(door);
    stranger.say(join_envelope("test", 0, 2, 7));
    EXPECT_FALSE(stranger.hear(quiet_time));
  }
  expect_untouched(world);
}

TEST(ControlStranger, WithAPairOfItsOwnLearnsAndChangesNothing) {
  TestWorld world(2);
  for (const std::string& door : doors(world)) {
    // Even one who has come to know the public half of the job's key.
    Stranger stranger(door, world.key.public_key, JobKey::generate());
    stranger.say(join_envelope("test", 0, 2, 7));
    EXPECT_FALSE(stranger.hear(quiet_time));
  }
  expect_untouched(world);
}

TEST(ControlStranger, OfAnotherRunWithTheRightKeyLearnsAndChangesNothing) {
  TestWorld world(2);
  Stranger stranger(world.coordinator->endpoint(), world.key.public_key, world.key);
  wire::Envelope put = join_envelope("other", 1, 2, 7);
  put.mutable_put()->set_key("key");
  stranger.say(put);
  EXPECT_FALSE(stranger.hear(quiet_time));
  stranger.say(join_envelope("other", 1, 2, 7));
  const auto answer = stranger.hear_of([](const wire::Envelope&) { return true; });
  ASSERT_TRUE(answer && answer->has_refused());
  EXPECT_THAT(answer->refused().message(), Not(HasSubstr("test")));
  EXPECT_EQ(world.coordinator->counters().foreign, 2u);
  EXPECT_FALSE(world.members[0]->store().get("key", milliseconds(0)));
  EXPECT_TRUE(world.members[0]->leave());
}

TEST(ControlStranger, OfAnotherVersionIsToldSo) {
  TestWorld world(1);
  Stranger stranger(world.coordinator->endpoint(), world.key.public_key, world.key);
  wire::Envelope join = join_envelope("test", 1, 1, 7);
  join.set_version(control::wire_version + 1);
  stranger.say(join);
  const auto answer = stranger.hear_of([](const wire::Envelope&) { return true; });
  ASSERT_TRUE(answer && answer->has_refused());
  EXPECT_THAT(answer->refused().message(),
              HasSubstr(fmt::format("uses version {}", control::wire_version + 1)));
  EXPECT_THAT(answer->refused().message(),
              HasSubstr(fmt::format("coordinator version {}", control::wire_version)));
}

/// Rank 1 of a world of two, played by hand, so that its messages are known byte for byte.
struct PlayedPeer {
  Inbox inbox;
  JobKey key = JobKey::generate();
  std::unique_ptr<Coordinator> coordinator =
      std::move(Coordinator::start(coordinator_options(2, key)).value());
  Stranger control{coordinator->endpoint(), key.public_key, key};
  std::unique_ptr<Member> member;
  std::unique_ptr<Stranger> to_member;

  PlayedPeer() {
    control.say(join_envelope("test", 2, 2, 7));
    member = std::move(Member::join(member_options(*coordinator, 0, 2, key)).value());
    inbox.listen(*member);
    to_member = std::make_unique<Stranger>(member->endpoint(), key.public_key, key);
  }

  wire::Envelope message(std::uint64_t sequence, const std::string& body) const {
    wire::Envelope envelope;
    envelope.set_version(control::wire_version);
    envelope.set_run(control::run_tag("test"));
    envelope.set_generation(1);
    envelope.set_from(2);
    envelope.set_session(7);
    envelope.set_sequence(sequence);
    envelope.set_message(body);
    return envelope;
  }

  /// What has arrived once the message "end" has, which is said as the next in turn.
  std::vector<std::string> arrived(std::uint64_t next) {
    to_member->say(message(next, "end"));
    EXPECT_TRUE(inbox.wait_messages(next));
    std::vector<std::string> bodies;
    for (auto& [from, body] : inbox.messages()) bodies.push_back(body);
    return bodies;
  }
};

TEST(ControlStranger, AReplayedMessageIsDropped) {
  PlayedPeer peer;
  const std::string recorded = control::encode(peer.message(1, "once"));
  peer.to_member->say(recorded);
  ASSERT_TRUE(peer.inbox.wait_messages(1));
  Stranger other(peer.member->endpoint(), peer.key.public_key, peer.key);
  other.say(recorded);
  peer.to_member->say(recorded);
  EXPECT_EQ(peer.arrived(2), (std::vector<std::string>{"once", "end"}));
  EXPECT_TRUE(peer.member->store().put("key", "value"));  // a round of the member's thread
  EXPECT_GE(peer.member->counters().duplicates, 1u);
}

TEST(ControlStranger, AMessageOfAnotherGenerationOrProcessIsDropped) {
  PlayedPeer peer;
  wire::Envelope older = peer.message(1, "older");
  older.set_generation(0);
  peer.to_member->say(older);
  wire::Envelope impostor = peer.message(1, "impostor");
  impostor.set_session(8);
  peer.to_member->say(impostor);
  wire::Envelope own = peer.message(1, "own rank");
  own.set_from(1);
  peer.to_member->say(own);
  wire::Envelope beyond = peer.message(1, "rank beyond the world");
  beyond.set_from(4'000'000'000u);
  peer.to_member->say(beyond);
  peer.to_member->say("junk");
  EXPECT_EQ(peer.arrived(1), (std::vector<std::string>{"end"}));
  EXPECT_TRUE(peer.member->store().put("key", "value"));
  EXPECT_EQ(peer.member->counters().stale, 1u);
  EXPECT_EQ(peer.member->counters().foreign, 3u);
  EXPECT_EQ(peer.member->counters().malformed, 1u);
}

TEST(ControlStranger, WhatAMemberOfAnotherGenerationOrAnotherProcessAsksForIsNotDone) {
  PlayedPeer peer;
  const auto put = [&](const std::string& key, std::uint32_t generation, std::uint64_t session) {
    wire::Envelope envelope = peer.message(2, "");  // behind the join
    envelope.mutable_put()->set_key(key);
    envelope.set_generation(generation);
    envelope.set_session(session);
    peer.control.say(envelope);
  };
  put("older", 0, 7);
  put("later", 2, 7);
  put("impostor", 1, 8);
  put("right", 1, 7);
  // The one that is to be done is behind the others on their connection.
  EXPECT_TRUE(peer.member->store().get("right", patience));
  for (const char* wrong : {"older", "later", "impostor"})
    EXPECT_FALSE(peer.member->store().get(wrong, milliseconds(0))) << wrong;
  EXPECT_EQ(peer.coordinator->counters().stale, 2u);
  EXPECT_EQ(peer.coordinator->counters().foreign, 1u);
}

TEST(ControlStranger, TenThousandJunkConnectionsDoNotStopTheCoordinator) {
  JobKey key = JobKey::generate();
  auto coordinator = std::move(Coordinator::start(coordinator_options(1, key)).value());
  std::mt19937 random(1);
  std::vector<int> silent;
  int made = 0;
  for (int i = 0; i < 10'000; ++i) {
    const int fd = connect_raw(coordinator->endpoint());
    if (fd < 0) continue;
    ++made;
    std::string junk(random() % 200, '\0');
    for (char& c : junk) c = static_cast<char>(random());
    if (i % 3 == 0) junk = "GET / HTTP/1.1\r\n\r\n";
    if (i % 3 == 1)
      junk.insert(0, std::string("\xff\0\0\0\0\0\0\0\x01\x7f\x03", 11));  // ZMTP begins so
    [[maybe_unused]] const auto sent = send(fd, junk.data(), junk.size(), MSG_NOSIGNAL);
    if (i % 100 == 0)
      silent.push_back(fd);
    else
      close(fd);
  }
  EXPECT_GT(made, 9'000);
  const auto joined = Member::join(member_options(*coordinator, 0, 1, key));
  EXPECT_TRUE(joined) << joined.error().what();
  EXPECT_EQ(coordinator->counters().foreign + coordinator->counters().malformed, 0u);
  for (const int fd : silent) close(fd);
}

}  // namespace
}  // namespace troupe
