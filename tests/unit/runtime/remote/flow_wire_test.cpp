#include "runtime/remote/flow_wire.h"

#include <gmock/gmock.h>

#include <random>

namespace troupe::remote {
namespace {

using ::testing::HasSubstr;

template <class T>
T round_trip(const T& message) {
  return std::get<T>(decode(encode(message)));
}

template <class T>
T note_round_trip(const T& note) {
  return std::get<T>(std::get<RunMessage>(decode(encode(RunMessage(note)))));
}

PacketOnWire packet() {
  return {.actor = 3,
          .incarnation = 2,
          .header = {.run = 0x1234567890abcdef,
                     .incarnation = 5,
                     .edge = 7,
                     .sequence = 9,
                     .key = {11, Purpose::evaluate, 13},
                     .slot = 1,
                     .samples = 8,
                     .batch_samples = 64,
                     .micro_batches = 4,
                     .length = 2 * 4 * 3 * 3 * 4 + 8},
          .tensors = {TensorMeta{Shape{2, 4, 3, 3}, DType::f32, Layout::nhwc}, std::nullopt,
                      TensorMeta{Shape{}, DType::i64}},
          .numbers = {1, UINT64_MAX},
          .texts = {"", std::string("\0\xff", 2)},
          .tag = 99};
}

TEST(FlowWire, KeepsEveryMemberOfAPacket) {
  const PacketOnWire sent = packet();
  const PacketOnWire got = round_trip(sent);
  EXPECT_EQ(got.actor, sent.actor);
  EXPECT_EQ(got.incarnation, sent.incarnation);
  EXPECT_EQ(got.header.run, sent.header.run);
  EXPECT_EQ(got.header.incarnation, sent.header.incarnation);
  EXPECT_EQ(got.header.edge, sent.header.edge);
  EXPECT_EQ(got.header.sequence, sent.header.sequence);
  EXPECT_EQ(got.header.key, sent.header.key);
  EXPECT_EQ(got.header.slot, sent.header.slot);
  EXPECT_EQ(got.header.samples, sent.header.samples);
  EXPECT_EQ(got.header.batch_samples, sent.header.batch_samples);
  EXPECT_EQ(got.header.micro_batches, sent.header.micro_batches);
  EXPECT_EQ(got.header.length, sent.header.length);
  ASSERT_EQ(got.tensors.size(), 3u);
  EXPECT_TRUE(got.tensors[0]->fits(*sent.tensors[0]));
  EXPECT_FALSE(got.tensors[1]);
  EXPECT_TRUE(got.tensors[2]->fits(*sent.tensors[2]));
  EXPECT_EQ(got.numbers, sent.numbers);
  EXPECT_EQ(got.texts, sent.texts);
  EXPECT_EQ(got.tag, sent.tag);
}

TEST(FlowWire, KeepsCredits) {
  const RemoteCredit got = round_trip(RemoteCredit{4, {5, 6, 7}});
  EXPECT_EQ(got.actor, 4u);
  EXPECT_EQ(got.credit.edge, 5u);
  EXPECT_EQ(got.credit.incarnation, 6u);
  EXPECT_EQ(got.credit.slot, 7u);
}

TEST(FlowWire, KeepsVotesAndCommits) {
  EXPECT_EQ(note_round_trip(Vote{1, 2, 3}).step, 3u);
  const Commit commit = note_round_trip(Commit{17, true, true, false});
  EXPECT_EQ(commit.step, 17u);
  EXPECT_TRUE(commit.snapshot && commit.last && !commit.stop_requested);
}

TEST(FlowWire, KeepsWhatHappensToTheDead) {
  const ActorDied died =
      note_round_trip(ActorDied{1, 2, "why", Error(ErrorCode::bad_file, "what", "remedy")});
  EXPECT_EQ(died.cause, "why");
  ASSERT_TRUE(died.lasting);
  EXPECT_EQ(died.lasting->code(), ErrorCode::bad_file);
  EXPECT_EQ(died.lasting->remedy(), "remedy");
  const Replacement replacement = note_round_trip(
      Replacement{ReplacementPhase::start, 4, 5, {6, 7}, Commit{8, false, true, true}});
  EXPECT_EQ(replacement.phase, ReplacementPhase::start);
  EXPECT_EQ(replacement.actors, (std::vector<std::uint32_t>{6, 7}));
  ASSERT_TRUE(replacement.newest);
  EXPECT_TRUE(replacement.newest->stop_requested);
  EXPECT_FALSE(note_round_trip(Replacement{}).newest);
  EXPECT_EQ(note_round_trip(PhaseDone{ReplacementPhase::rewire, 9}).incarnation, 9u);
  EXPECT_EQ(note_round_trip(Flushed{9}).incarnation, 9u);
}

TEST(FlowWire, KeepsWhetherAnActorSaidAnythingOfSnapshots) {
  EXPECT_FALSE(note_round_trip(ActorNews{1, {}, true}).accepts_snapshot);
  EXPECT_EQ(note_round_trip(ActorNews{1, false, false}).accepts_snapshot, false);
  EXPECT_EQ(note_round_trip(ActorNews{1, true, false}).accepts_snapshot, true);
}

TEST(FlowWire, KeepsReportsAndTraces) {
  using std::chrono::nanoseconds;
  ProcessEnded ended{.begun = -5};
  ended.actors.push_back({.name = "stage/1",
                          .process = 2,
                          .time = {nanoseconds(1), nanoseconds(2), nanoseconds(3), nanoseconds(4)},
                          .actions = 5,
                          .dropped = 6,
                          .peak_mailbox = 7,
                          .mailbox_bound = 8});
  ended.trace.push_back({9, {"F", {1, Purpose::train, 2}}, nanoseconds(10), nanoseconds(11)});
  const ProcessEnded got = note_round_trip(ended);
  EXPECT_EQ(got.begun, -5);
  ASSERT_EQ(got.actors.size(), 1u);
  EXPECT_EQ(got.actors[0].name, "stage/1");
  EXPECT_EQ(got.actors[0].time.other, nanoseconds(4));
  EXPECT_EQ(got.actors[0].mailbox_bound, 8u);
  ASSERT_EQ(got.trace.size(), 1u);
  EXPECT_EQ(got.trace[0].label.name, "F");
  EXPECT_EQ(got.trace[0].end, nanoseconds(11));
}

TEST(FlowWire, RefusesTensorsThatDoNotAddUp) {
  PacketOnWire wrong = packet();
  wrong.header.length += 1;
  try {
    decode(encode(wrong));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_message);
    EXPECT_THAT(error.message(), HasSubstr("296 bytes where its header says 297"));
  }
}

TEST(FlowWire, RefusesWhatIsNoMessage) {
  EXPECT_THROW(decode(""), Error);
  EXPECT_THROW(decode("hello"), Error);
  EXPECT_THROW(decode(std::string(1000, '\xff')), Error);
}

TEST(FlowWire, NeverDoesWorseThanRefuseDamagedBytes) {
  std::mt19937 random(1);
  const std::string whole = encode(packet());
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = whole;
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    try {
      decode(damaged);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_message);
    }
  }
}

}  // namespace
}  // namespace troupe::remote
