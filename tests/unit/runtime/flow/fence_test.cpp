// Actors with streams: what leaves at once, and what leaves when a fence has passed. Fences pass by
// explicit calls.
#include <gmock/gmock.h>

#include <algorithm>
#include <any>
#include <chrono>
#include <functional>
#include <thread>

#include "manual_stream.h"
#include "runtime/flow/run.h"
#include "workers.h"

namespace troupe {
namespace {

using testing::Adder;
using testing::Collector;
using testing::Counter;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ManualStream;
using testing::OnStream;
using testing::Teller;

/// Runs a graph in one thread; `when_idle` is called when no message is left, and returns whether
/// it has passed a fence.
RunReport run_by_hand(const Graph& graph, std::function<bool()> when_idle,
                      RunOptions options = {}) {
  options.scheduling = Scheduling::deterministic;
  options.outside = [when_idle = std::move(when_idle)](bool idle) { return idle && when_idle(); };
  return run(graph, options);
}

TEST(Fence, LetsPacketsGoAtOnceToActorsWithStreamsAndCreditsWhenItHasPassed) {
  const auto of_counter = std::make_shared<ManualStream>(),
             of_taker = std::make_shared<ManualStream>();
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto counter = graph.add<OnStream<Counter>>("counter", of_counter, 5u);
  const auto taker = graph.add<OnStream<Collector>>("taker", of_taker, seen, std::size_t{5});
  graph.connect(counter, &Counter::out, taker, &Collector::in, {.slots = 2});
  std::vector<std::size_t> taken;
  run_by_hand(graph, [&] {
    taken.push_back(seen->size());
    // The counter's fences pass when nothing else is left.
    return of_taker->pass() || of_counter->pass();
  });
  // With two slots the third number waits for the first credit.
  taken.resize(6);
  EXPECT_THAT(taken, ElementsAre(2, 3, 4, 5, 5, 5));
  EXPECT_EQ(of_taker->awaited, 5);
}

TEST(Fence, HoldsPacketsBackFromActorsWithoutAStream) {
  const auto stream = std::make_shared<ManualStream>();
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto counter = graph.add<OnStream<Counter>>("counter", stream, 4u);
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{4});
  graph.connect(counter, &Counter::out, collector, &Collector::in, {.slots = 2});
  std::vector<std::size_t> arrived;
  run_by_hand(graph, [&] {
    arrived.push_back(seen->size());
    return stream->pass();
  });
  EXPECT_THAT(arrived, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(*seen, ElementsAre(0, 1, 2, 3));
}

TEST(Fence, HoldsEventsAndReportsToTheSupervisorBack) {
  const auto stream = std::make_shared<ManualStream>();
  Graph graph;
  graph.add<OnStream<Teller>>("teller", stream);
  int events = 0, events_before = -1;
  RunOptions options;
  options.on_event = [&](const std::any&) { ++events; };
  run_by_hand(
      graph,
      [&] {
        if (events_before < 0) events_before = events;
        return stream->pass();
      },
      options);
  EXPECT_EQ(events_before, 0);
  EXPECT_EQ(events, 1);
}

TEST(Fence, MarksEachActionForProfilers) {
  const auto stream = std::make_shared<ManualStream>();
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto counter = graph.add<OnStream<Counter>>("counter", stream, 3u);
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{3});
  graph.connect(counter, &Counter::out, collector, &Collector::in, {.slots = 2});
  run_by_hand(graph, [&] { return stream->pass(); });
  EXPECT_THAT(stream->ranges, ElementsAre("counter", "counter", "counter"));
  EXPECT_EQ(stream->ranges_ended, 3u);
}

TEST(Fence, CountsAndTracesTheTimeInWhichTheDeviceComputed) {
  const auto stream = std::make_shared<ManualStream>();
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto counter = graph.add<OnStream<Counter>>("counter", stream, 1u);
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{1});
  graph.connect(counter, &Counter::out, collector, &Collector::in, {.slots = 2});
  constexpr std::chrono::milliseconds length{5};
  std::optional<DeviceSpan> done;
  stream->on_device = [&] { return done; };
  RunOptions options;
  options.trace = true;
  const RunReport report = run_by_hand(
      graph,
      [&] {
        std::this_thread::sleep_for(2 * length);
        const auto now = std::chrono::steady_clock::now();
        done = {now - length, now};
        return stream->pass();
      },
      options);
  const ActorReport& actor = report.actors[counter.index];
  EXPECT_GE(actor.time.compute, length);
  EXPECT_LE(actor.time.total(), report.wall);
  const auto event = std::ranges::find(report.trace, counter.index, &TraceEvent::actor);
  ASSERT_NE(event, report.trace.end());
  EXPECT_EQ(event->end - event->begin, length);
  EXPECT_GE(event->begin, length) << "in the trace is when the device began, not the host";
}

TEST(Fence, KeepsNoTimesOfASourceThatHoldsNothingBack) {
  const auto of_counter = std::make_shared<ManualStream>(true);
  const auto of_taker = std::make_shared<ManualStream>();
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto counter = graph.add<OnStream<Counter>>("counter", of_counter, 6u);
  const auto taker = graph.add<OnStream<Collector>>("taker", of_taker, seen, std::size_t{6});
  graph.connect(counter, &Counter::out, taker, &Collector::in, {.slots = 2});
  const auto times = std::make_shared<int>();  // each time that is not read yet has a copy
  of_counter->on_device = [times] {
    const auto now = std::chrono::steady_clock::now();
    return DeviceSpan{now, now};
  };
  const auto without = times.use_count();
  std::vector<std::ptrdiff_t> kept;
  run_by_hand(graph, [&] {
    kept.push_back(times.use_count() - without);
    return of_taker->pass() || of_counter->pass();
  });
  EXPECT_THAT(*seen, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(kept, Each(0));
}

TEST(Fence, TracesTheTimeOfTheHostWhereTheDeviceDoesNotTellItsOwn) {
  const auto stream = std::make_shared<ManualStream>();
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto counter = graph.add<OnStream<Counter>>("counter", stream, 3u);
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{3});
  graph.connect(counter, &Counter::out, collector, &Collector::in, {.slots = 2});
  stream->on_device = [] { return std::nullopt; };
  RunOptions options;
  options.trace = true;
  const RunReport report = run_by_hand(
      graph, [&] { return stream->pass(); }, options);
  EXPECT_EQ(report.trace.size(), 6u);
  for (const TraceEvent& event : report.trace) {
    EXPECT_GT(event.end, event.begin);
    EXPECT_LE(event.end, report.wall);
  }
}

/// Votes for each step and notes its commit.
class Voter : public Actor {
 public:
  explicit Voter(std::shared_ptr<std::vector<std::uint32_t>> commits)
      : commits_(std::move(commits)) {}
  bool ready() const override { return voted_ < committed_ + 1 && !last_; }
  ActionLabel act() override {
    vote(voted_++, nullptr);
    return {"vote", {voted_ - 1, Purpose::train, 0}};
  }
  bool votes() const override { return true; }
  void on_commit(const Commit& commit) override {
    commits_->push_back(commit.step);
    committed_ = commit.step + 1;
    last_ = commit.last;
  }

 protected:
  void begin_at(std::uint32_t step) { voted_ = committed_ = step; }

 private:
  std::shared_ptr<std::vector<std::uint32_t>> commits_;
  std::uint32_t voted_ = 0, committed_ = 0;
  bool last_ = false;
};

/// Runs so many steps. Returns how many commits there were before each fence, and at the end.
template <class S>
std::vector<std::size_t> commits_before_fences(Graph& graph, S& stream,
                                               const std::vector<std::uint32_t>& commits,
                                               std::uint32_t steps,
                                               const Status& status = success()) {
  std::vector<std::size_t> counts;
  RunOptions options;
  options.steps.count = steps;
  run_by_hand(
      graph,
      [&] {
        counts.push_back(commits.size());
        return stream.pass(status);
      },
      options);
  return counts;
}

TEST(Fence, HoldsVotesBack) {
  const auto stream = std::make_shared<ManualStream>();
  const auto commits = std::make_shared<std::vector<std::uint32_t>>();
  Graph graph;
  graph.add<OnStream<Voter>>("voter", stream, commits);
  EXPECT_THAT(commits_before_fences(graph, *stream, *commits, 3), ElementsAre(0, 1, 2, 3));
}

TEST(Fence, LetsVotesGoAtOnceWhereAFailureEndsTheRunAndEndsItAfterTheLastFence) {
  const auto stream = std::make_shared<ManualStream>(true);
  const auto commits = std::make_shared<std::vector<std::uint32_t>>();
  Graph graph;
  graph.add<OnStream<Voter>>("voter", stream, commits);
  EXPECT_THAT(commits_before_fences(graph, *stream, *commits, 3), ElementsAre(3, 3, 3, 3));
  EXPECT_THAT(
      [&] {
        commits_before_fences(graph, *stream, *commits, 3,
                              Error(ErrorCode::io, "the device is lost"));
      },
      ::testing::ThrowsMessage<Error>(HasSubstr("the device is lost")));
}

/// Goes on after the last committed step.
class RestoredVoter : public Voter {
 public:
  using Voter::Voter;
  void restore(const CommittedState&, std::uint32_t steps) override { begin_at(steps); }
};

// Its vote went at once, so the weights that it restores may not be complete.
TEST(Fence, LetsTheStreamOfAReplacementWaitForTheStateThatWasVotedFor) {
  const auto stream = std::make_shared<ManualStream>(true);
  const auto commits = std::make_shared<std::vector<std::uint32_t>>();
  Graph graph;
  graph.add<OnStream<RestoredVoter>>("voter", stream, commits);
  int awaited_before_any_passed = -1, failures = 0;
  RunOptions options;
  options.on_failure = [&](const FailureReport&) { ++failures; };
  options.steps.count = 3;
  options.faults = {{.actor = "voter", .step = 1, .micro_batch = 0}};
  run_by_hand(
      graph,
      [&] {
        if (awaited_before_any_passed < 0) awaited_before_any_passed = stream->awaited;
        return stream->pass();
      },
      options);
  EXPECT_EQ(failures, 1);
  EXPECT_EQ(awaited_before_any_passed, 1);
}

/// Sends a number, then votes for the step before it has left.
class SendingVoter : public Voter {
 public:
  using Voter::Voter;
  ActionLabel act() override {
    if (out.has_slot()) out.send({}, 1);
    return Voter::act();
  }
  Output<int> out{this, "out"};
};

TEST(Fence, HoldsVotesBackBehindMessagesToActorsWithoutAStream) {
  const auto stream = std::make_shared<ManualStream>(true);
  const auto commits = std::make_shared<std::vector<std::uint32_t>>();
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto voter = graph.add<OnStream<SendingVoter>>("voter", stream, commits);
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{1});
  graph.connect(voter, &SendingVoter::out, collector, &Collector::in, {.slots = 1});
  const auto committed = commits_before_fences(graph, *stream, *commits, 1);
  EXPECT_EQ(committed.at(0), 0u);
  EXPECT_EQ(committed.at(1), 1u);
}

/// Does something in one action, and votes in the next.
class LateVoter : public Voter {
 public:
  using First = std::function<void(LateVoter&)>;
  LateVoter(std::shared_ptr<std::vector<std::uint32_t>> commits, First first)
      : Voter(std::move(commits)), first_(std::move(first)) {}
  bool ready() const override { return first_ || Voter::ready(); }
  ActionLabel act() override {
    if (!first_) return Voter::act();
    std::exchange(first_, nullptr)(*this);
    return {"first", {}};
  }
  void emit_number() { emit(1); }
  Output<int> out{this, "out", Connection::optional};

 private:
  First first_;
};

TEST(Fence, HoldsVotesBackBehindMessagesAndEventsOfEarlierActions) {
  for (const bool sends : {true, false}) {
    const auto stream = std::make_shared<ManualStream>(true);
    const auto commits = std::make_shared<std::vector<std::uint32_t>>();
    const auto seen = std::make_shared<std::vector<int>>();
    Graph graph;
    const LateVoter::First first = [sends](LateVoter& voter) {
      if (sends) return voter.out.send({}, 1);
      voter.emit_number();
    };
    const auto voter = graph.add<OnStream<LateVoter>>("voter", stream, commits, first);
    if (sends) {
      const auto collector = graph.add<Collector>("collector", seen, std::size_t{1});
      graph.connect(voter, &LateVoter::out, collector, &Collector::in, {.slots = 1});
    }
    const auto committed = commits_before_fences(graph, *stream, *commits, 1);
    EXPECT_EQ(committed.at(0), 0u) << (sends ? "a message" : "an event");
    EXPECT_EQ(commits->size(), 1u);
  }
}

/// Takes nothing until it is opened.
class ClosedCollector : public Collector {
 public:
  ClosedCollector(const std::shared_ptr<std::vector<int>>& seen, std::size_t count,
                  const bool* open)
      : Collector(seen, count), open_(open) {}
  bool ready() const override { return *open_ && Collector::ready(); }

 private:
  const bool* open_;
};

// The sender has failed as well, and its repetition must not be taken for the message.
TEST(Fence, FailsTheReceiverOfAMessageWhoseWorkHasFailedBefore) {
  const auto of_counter = std::make_shared<ManualStream>(),
             of_taker = std::make_shared<ManualStream>();
  const auto seen = std::make_shared<std::vector<int>>();
  bool open = false;
  Graph graph;
  const auto counter = graph.add<OnStream<Counter>>("counter", of_counter, 3u);
  const auto taker =
      graph.add<OnStream<ClosedCollector>>("taker", of_taker, seen, std::size_t{3}, &open);
  graph.connect(counter, &Counter::out, taker, &ClosedCollector::in, {.slots = 2});
  std::vector<std::string> failed;
  RunOptions options;
  options.restarts.max = 10;
  options.on_failure = [&](const FailureReport& failure) { failed.push_back(failure.actor); };
  run_by_hand(
      graph,
      [&] {
        const Status status = std::exchange(open, true)
                                  ? success()
                                  : Status(Error(ErrorCode::actor_failed, "the device failed"));
        return of_counter->pass(status) || of_taker->pass();
      },
      options);
  EXPECT_THAT(failed, ::testing::Contains("counter"));
  EXPECT_THAT(failed, ::testing::Contains("taker"));
  EXPECT_THAT(*seen, ElementsAre(0, 1, 2));
}

/// Emits once, in the midst of the run.
class Emitter : public Actor {
 public:
  bool ready() const override { return !emitted_; }
  ActionLabel act() override {
    emitted_ = true;
    emit(1);
    return {"emit", {}};
  }

 private:
  bool emitted_ = false;
};

TEST(Fence, EndsNoRunBeforeAllThatIsHeldBackHasLeft) {
  const auto stream = std::make_shared<ManualStream>();
  Graph graph;
  graph.add<OnStream<Emitter>>("emitter", stream);
  graph.add<Teller>("teller");  // ends the run at once
  int events = 0;
  RunOptions options;
  options.on_event = [&](const std::any&) { ++events; };
  run_by_hand(
      graph, [&] { return stream->pass(); }, options);
  EXPECT_EQ(events, 2);
}

/// counter → adder → collector, each with a stream where one is given.
Graph chain(const std::vector<std::shared_ptr<ManualStream>>& streams,
            const std::shared_ptr<std::vector<int>>& seen, std::uint32_t count) {
  Graph graph;
  const auto counter =
      streams[0]
          ? ActorRef<Counter>{graph.add<OnStream<Counter>>("counter", streams[0], count).index}
          : graph.add<Counter>("counter", count);
  const auto adder = streams[1]
                         ? ActorRef<Adder>{graph.add<OnStream<Adder>>("adder", streams[1]).index}
                         : graph.add<Adder>("adder");
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{count});
  graph.connect(counter, &Counter::out, adder, &Adder::in, {.slots = 3});
  graph.connect(adder, &Adder::out, collector, &Collector::in, {.slots = 2});
  return graph;
}

/// Runs a chain in an order of messages and fences that the seed draws.
std::vector<int> numbers_of(const std::vector<bool>& has_stream, std::uint64_t seed,
                            RunOptions options, std::uint32_t fails_at = 0) {
  std::vector<std::shared_ptr<ManualStream>> streams;
  for (const bool has : has_stream)
    streams.push_back(has ? std::make_shared<ManualStream>() : nullptr);
  const auto seen = std::make_shared<std::vector<int>>();
  std::mt19937_64 random(seed);
  options.scheduling = Scheduling::deterministic;
  options.seed = seed;
  std::uint32_t passed = 0;
  options.outside = [&](bool idle) {
    if (!idle && random() % 3 != 0) return false;
    std::shuffle(streams.begin(), streams.end(), random);
    return std::ranges::any_of(streams, [&](const auto& stream) {
      const bool fails = passed + 1 == fails_at;
      const Status status =
          fails ? Status(Error(ErrorCode::actor_failed, "the device has failed")) : success();
      return stream && stream->pass(status) && ++passed;
    });
  };
  run(chain(std::vector(streams), seen, 40), options);
  return *seen;
}

std::vector<int> one_to_forty() {
  std::vector<int> numbers;
  for (int i = 1; i <= 40; ++i) numbers.push_back(i);
  return numbers;
}

TEST(Fence, LosesAndRepeatsNothingWhereReceiversAreReplaced) {
  RunOptions options;
  options.faults = {{"adder", 0, 7, ""}, {"adder", 0, 8, ""}, {"adder", 0, 20, ""}};
  options.restarts.max = 10;
  for (const auto& streams :
       {std::vector<bool>{true, false}, {true, true}, {false, true}, {false, false}})
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(::testing::Message() << streams[0] << streams[1] << ", seed " << seed);
      EXPECT_EQ(numbers_of(streams, seed, options), one_to_forty());
    }
}

TEST(Fence, LosesAndRepeatsNothingWhereSendersAreReplaced) {
  RunOptions options;
  options.faults = {{"counter", 0, 7, ""}, {"counter", 0, 20, ""}};
  for (const auto& streams : {std::vector<bool>{true, false}, {true, true}})
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(::testing::Message() << streams[0] << streams[1] << ", seed " << seed);
      EXPECT_EQ(numbers_of(streams, seed, options), one_to_forty());
    }
}

TEST(Fence, FailsTheActorWhoseWorkHasFailedAndDropsWhatIsHeldBack) {
  std::vector<FailureReport> failures;
  RunOptions options;
  options.on_failure = [&](const FailureReport& failure) { failures.push_back(failure); };
  options.restarts.max = 10;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    failures.clear();
    EXPECT_EQ(numbers_of({false, true}, seed, options, 10), one_to_forty());
    ASSERT_EQ(failures.size(), 1u) << "seed " << seed;
    EXPECT_EQ(failures[0].actor, "adder");
    EXPECT_THAT(failures[0].cause, HasSubstr("the device has failed"));
  }
}

}  // namespace
}  // namespace troupe
