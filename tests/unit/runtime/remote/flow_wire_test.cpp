#include "runtime/remote/flow_wire.h"

#include <gmock/gmock.h>

#include <cstring>
#include <random>

#include "runtime/tensor/backend.h"

namespace troupe::remote {
namespace {

using ::testing::HasSubstr;

struct Sample {
  Tensor tensor, undefined;
  std::vector<std::string> names;
  std::int64_t count = 0;
  static void members(auto& self, auto& visit) {
    visit(self.tensor);
    visit(self.undefined);
    visit(self.names);
    visit(self.count);
  }
};
struct Opaque {};

template <class T>
struct Sender final : Actor {
  Output<T> out{this, "out"};
  ActionLabel act() override { return {"send", {}}; }
};
template <class T>
struct Receiver final : Actor {
  Input<T> in{this, "in"};
  ActionLabel act() override { return {"receive", {}}; }
};

/// Edge 0 carries samples between processes, edge 1 nothing.
Graph make_graph() {
  Graph graph;
  graph.connect(graph.add<Sender<Sample>>("a"), &Sender<Sample>::out,
                graph.add<Receiver<Sample>>("b"), &Receiver<Sample>::in);
  graph.connect(graph.add<Sender<Opaque>>("c"), &Sender<Opaque>::out,
                graph.add<Receiver<Opaque>>("d"), &Receiver<Opaque>::in);
  return graph;
}
const Graph graph = make_graph();

template <class T>
T round_trip(const T& message) {
  return std::get<T>(std::get<RunMessage>(decode(encode(message, graph).bytes, graph).message));
}

Packet packet() {
  return {
      .header = {.incarnation = 5,
                 .receiver = 2,
                 .edge = 0,
                 .key = {11, Purpose::evaluate, 13},
                 .slot = 1,
                 .samples = 8,
                 .batch_samples = 64,
                 .micro_batches = 4},
      .payload = std::make_shared<Sample>(Sample{Tensor::zeros({2, 4, 3, 3}), {}, {"", "a"}, -1})};
}

std::string packet_bytes() { return encode(packet(), graph).bytes; }

TEST(FlowWire, KeepsEveryMemberOfAPacket) {
  const Packet sent = packet();
  const WireWriter out = encode(sent, graph);
  ASSERT_EQ(out.tensors.size(), 1u) << "one tensor is defined";
  const Incoming got = decode(out.bytes, graph);
  const auto& packet = std::get<Packet>(got.message);
  const Header &header = packet.header, &expected = sent.header;
  EXPECT_EQ(header.incarnation, expected.incarnation);
  EXPECT_EQ(header.receiver, expected.receiver);
  EXPECT_EQ(header.edge, expected.edge);
  EXPECT_EQ(header.key, expected.key);
  EXPECT_EQ(header.slot, expected.slot);
  EXPECT_EQ(header.samples, expected.samples);
  EXPECT_EQ(header.batch_samples, expected.batch_samples);
  EXPECT_EQ(header.micro_batches, expected.micro_batches);
  const auto& payload = *static_cast<const Sample*>(packet.payload.get());
  EXPECT_EQ(payload.names, (std::vector<std::string>{"", "a"}));
  EXPECT_EQ(payload.count, -1);
  ASSERT_EQ(got.tensors.size(), 1u);
  EXPECT_EQ(got.tensors[0].place, &payload.tensor);
  EXPECT_TRUE(got.tensors[0].meta.fits(TensorMeta::of(out.tensors[0])));
}

TEST(FlowWire, RefusesTensorsThatTheRouteOfTheEdgeDoesNotCarry) {
  Packet sent = packet();
  static constexpr Backend backend{.name = "gpu"};
  const auto memory = Storage::wrap(nullptr, 4, Device{&backend, 1}, nullptr);
  sent.payload =
      std::make_shared<Sample>(Sample{Tensor::view(memory, 0, {1}, DType::f32), {}, {}, 0});
  try {
    encode(sent, graph);
    FAIL() << "nothing was refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_graph);
    EXPECT_THAT(error.message(), HasSubstr("b.in: a message has a tensor on gpu:1"));
  }
}

TEST(FlowWire, KeepsCredits) {
  const auto got = std::get<Credit>(decode(encode(Credit{5, 6, 7}, graph).bytes, graph).message);
  EXPECT_EQ(got.edge, 5u);
  EXPECT_EQ(got.incarnation, 6u);
  EXPECT_EQ(got.slot, 7u);
}

TEST(FlowWire, KeepsVotesAndCommits) {
  EXPECT_EQ(round_trip(Vote{1, 2, 3}).step, 3u);
  EXPECT_FALSE(round_trip(Vote{1, 2, 3}).ends);
  EXPECT_TRUE(round_trip(Vote{.step = 3, .ends = true}).ends);
  const Commit commit = round_trip(Commit{17, true, true, false});
  EXPECT_EQ(commit.step, 17u);
  EXPECT_TRUE(commit.snapshot && commit.last && !commit.stop_requested);
}

TEST(FlowWire, LeavesTheStateOfAVoteInItsProcess) {
  EXPECT_FALSE(round_trip(Vote{1, 2, 3, false, std::make_shared<int>(4)}).state);
}

TEST(FlowWire, KeepsDeathsAndReplacements) {
  const ActorFailed died =
      round_trip(ActorFailed{1, 2, "why", Error(ErrorCode::bad_file, "what", "remedy")});
  EXPECT_EQ(died.cause, "why");
  ASSERT_TRUE(died.lasting);
  EXPECT_EQ(died.lasting->code(), ErrorCode::bad_file);
  EXPECT_EQ(died.lasting->remedy(), "remedy");
  const Replacement replacement =
      round_trip(Replacement{ReplacementPhase::start, 4, 5, {6, 7}, Commit{8, false, true, true}});
  EXPECT_EQ(replacement.phase, ReplacementPhase::start);
  EXPECT_EQ(replacement.actors, (std::vector<std::uint32_t>{6, 7}));
  ASSERT_TRUE(replacement.newest);
  EXPECT_TRUE(replacement.newest->stop_requested);
  EXPECT_FALSE(round_trip(Replacement{}).newest);
  EXPECT_EQ(round_trip(PhaseDone{ReplacementPhase::rewire, 9}).incarnation, 9u);
  EXPECT_EQ(round_trip(Flushed{9}).incarnation, 9u);
}

TEST(FlowWire, KeepsHowARunEnds) {
  EXPECT_EQ(round_trip(RunFailed{Error(ErrorCode::io, "what")}).error.code(), ErrorCode::io);
  const EndRun end = round_trip(EndRun{Error(ErrorCode::io, "what"), 5, 6, true});
  ASSERT_TRUE(end.failure);
  EXPECT_EQ(end.steps, 5u);
  EXPECT_EQ(end.replacements, 6u);
  EXPECT_TRUE(end.stopped);
  round_trip(StopRequest{});
}

TEST(FlowWire, KeepsWhetherAnActorReportedOnSnapshots) {
  EXPECT_FALSE(round_trip(ActorStatus{1, {}, true}).accepts_snapshot);
  EXPECT_EQ(round_trip(ActorStatus{1, false, false}).accepts_snapshot, false);
  EXPECT_EQ(round_trip(ActorStatus{1, true, false}).accepts_snapshot, true);
}

TEST(FlowWire, KeepsReportsAndTraces) {
  using std::chrono::nanoseconds;
  ProcessEnded ended;
  ended.actors.push_back({.name = "stage/1",
                          .process = 2,
                          .time = {nanoseconds(1), nanoseconds(2), nanoseconds(3), nanoseconds(4)},
                          .actions = 5,
                          .dropped = 6,
                          .peak_mailbox = 7,
                          .mailbox_bound = 8});
  const ProcessEnded got = round_trip(ended);
  ASSERT_EQ(got.actors.size(), 1u);
  EXPECT_EQ(got.actors[0].name, "stage/1");
  EXPECT_EQ(got.actors[0].time.other, nanoseconds(4));
  EXPECT_EQ(got.actors[0].mailbox_bound, 8u);
  const TracePart part = round_trip(
      TracePart{-5, {{9, "F", {1, Purpose::train, 2}, nanoseconds(10), nanoseconds(11)}}});
  EXPECT_EQ(part.begun, -5);
  ASSERT_EQ(part.events.size(), 1u);
  EXPECT_EQ(part.events[0].name, "F");
  EXPECT_EQ(part.events[0].end, nanoseconds(11));
}

TEST(FlowWire, RefusesPacketsOnEdgesThatCarryNone) {
  for (const std::uint32_t edge : {1u, 2u, 0xffff'ffffu}) {
    std::string bytes = packet_bytes();
    // Behind the kind and both incarnations.
    std::memcpy(bytes.data() + 1 + 4 + 4, &edge, sizeof edge);
    try {
      decode(bytes, graph);
      FAIL() << "edge " << edge;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_message);
      EXPECT_THAT(error.message(), HasSubstr(std::to_string(edge)));
    }
  }
}

TEST(FlowWire, RefusesWhatIsNoMessage) {
  EXPECT_THROW(decode("", graph), Error);
  EXPECT_THROW(decode("hello", graph), Error);
  EXPECT_THROW(decode(std::string("\3\0", 2), graph), Error) << "an unknown kind";
  EXPECT_THROW(decode(std::string(1000, '\xff'), graph), Error);
  EXPECT_THROW(decode(std::string("\2\xff", 2), graph), Error) << "an unknown run message";
  EXPECT_THROW(decode(encode(Credit{}, graph).bytes + "x", graph), Error) << "bytes left over";
}

TEST(FlowWire, ReadsOrRefusesDamagedBytes) {
  std::mt19937 random(1);
  const std::vector<std::string> messages = {
      packet_bytes(), encode(ActorFailed{1, 2, "why", Error(ErrorCode::io, "what")}, graph).bytes,
      encode(ProcessEnded{.actors = {{.name = "stage/0"}}}, graph).bytes,
      encode(TracePart{.events = {{1, "F"}}}, graph).bytes,
      encode(Replacement{.actors = {1, 2}, .newest = Commit{}}, graph).bytes};
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = messages[random() % messages.size()];
    for (unsigned n = 1 + random() % 4; n > 0; --n)
      damaged[random() % damaged.size()] = static_cast<char>(random());
    if (random() % 4 == 0) damaged.resize(random() % damaged.size());
    try {
      decode(damaged, graph);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_message);
    }
  }
}

}  // namespace
}  // namespace troupe::remote
