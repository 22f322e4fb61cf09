// A run over several processes, which are threads with memory between them here: so that
// interleavings come by the hundred. Real processes are in tests/system.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <future>
#include <numeric>

#include "memory_bridge.h"
#include "runtime/flow/run.h"
#include "runtime/transport/delivery_deferral.h"
#include "workers.h"

namespace troupe {
namespace {

using testing::Adder;
using testing::Collector;
using testing::Counter;
using ::testing::HasSubstr;
using testing::make_memory_links;
using testing::MemoryBridge;

constexpr std::uint32_t count = 100;

/// counter → adder → adder → collector.
Graph chain(const std::shared_ptr<std::vector<int>>& seen,
            const std::vector<std::uint32_t>& places) {
  Graph graph;
  const auto counter = graph.add<Counter>("counter", count);
  const auto first = graph.add<Adder>("adder/0");
  const auto second = graph.add<Adder>("adder/1");
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{count});
  graph.connect(counter, &Counter::out, first, &Adder::in, {.slots = 2});
  graph.connect(first, &Adder::out, second, &Adder::in, {.slots = 3});
  graph.connect(second, &Adder::out, collector, &Collector::in, {.slots = 2});
  graph.place(counter, places[0]);
  graph.place(first, places[1]);
  graph.place(second, places[2]);
  graph.place(collector, places[3]);
  return graph;
}

std::vector<int> two_to_count_and_one() {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 2);
  return numbers;
}

std::string outcome(std::future<RunReport>& run) {
  try {
    run.get();
    return "done";
  } catch (const Error& error) {
    return error.message();
  }
}

/// Starts the graph's run in each process of the placement.
std::vector<std::future<RunReport>> start(
    const Graph& graph, std::uint64_t seed, RunOptions options = {},
    const std::function<std::shared_ptr<Bridge>(std::shared_ptr<Bridge>)>& around = {}) {
  std::uint32_t processes = 1;
  for (const auto& actor : graph.actors()) processes = std::max(processes, actor.process + 1);
  const auto links = make_memory_links(graph, processes, seed);
  options.threads = 2;
  std::vector<std::future<RunReport>> runs;
  for (std::uint32_t here = 0; here < processes; ++here) {
    options.process = here;
    options.processes = processes;
    options.bridge = std::make_shared<MemoryBridge>(links, here);
    if (around) options.bridge = around(options.bridge);
    runs.push_back(
        std::async(std::launch::async, [&graph, options] { return run(graph, options); }));
  }
  return runs;
}

TEST(RunOverProcesses, DeliversInOrderWhereverTheActorsLive) {
  const std::vector<std::vector<std::uint32_t>> placements = {
      {0, 0, 0, 1}, {0, 1, 0, 1}, {1, 1, 1, 0}, {0, 1, 2, 3}, {3, 2, 1, 0}};
  for (const auto& places : placements) {
    const auto seen = std::make_shared<std::vector<int>>();
    const Graph graph = chain(seen, places);
    for (auto& process : start(graph, 1)) EXPECT_EQ(outcome(process), "done");
    EXPECT_EQ(*seen, two_to_count_and_one());
  }
}

/// Delivers one message of process 1. The other processes do nothing but end with the run.
class OneMessage final : public Bridge {
 public:
  explicit OneMessage(BridgeMessage message) : message_(std::move(message)) {}
  void open(OnMessage on_message, OnLost) override {
    on_message_ = std::move(on_message);
    on_message_(1, std::move(message_));
  }
  void close() override { on_message_ = {}; }
  void send(std::uint32_t to, BridgeMessage message) override {
    const auto* order = std::get_if<RunMessage>(&message);
    if (order && std::holds_alternative<EndRun>(*order))
      on_message_(to, RunMessage(ProcessEnded{}));
  }

 private:
  BridgeMessage message_;
  OnMessage on_message_;
};

TEST(RunOverProcesses, RefusesMessagesOfAProcessOnEdgesThatAreNotItsOwn) {
  // counter and adder/0 are in process 0, adder/1 and collector in processes 1 and 2.
  const Graph graph = chain(std::make_shared<std::vector<int>>(), {0, 0, 1, 2});
  const auto packet_on = [](std::uint32_t edge) {
    return Packet{.header = {.edge = edge}, .payload = std::make_shared<int>(1)};
  };
  const BridgeMessage foreign[] = {packet_on(0),      packet_on(2),
                                   packet_on(3),      Credit{.edge = 0},
                                   Credit{.edge = 2}, Credit{.edge = 1, .slot = 3}};
  for (const BridgeMessage& message : foreign) {
    RunOptions options{.threads = 1, .processes = 3};
    options.bridge = std::make_shared<OneMessage>(message);
    auto ended = std::async(std::launch::async, [&] { return run(graph, options); });
    EXPECT_THAT(outcome(ended), HasSubstr("is not part of this run"));
  }
}

/// Records whether deliveries are deferred.
class Deferred final : public DeliveryDeferral::Arrivals {
 public:
  operator bool() const { return deferred_; }
  void defer_delivery() override { deferred_ = true; }
  void deliver_pending() override { deferred_ = false; }

 private:
  std::atomic<bool> deferred_ = false;
};

/// Looks at it while it acts.
class Witness final : public Counter {
 public:
  Witness(std::shared_ptr<Deferred> defers, std::shared_ptr<std::atomic<int>> seen)
      : Counter(count), defers_(std::move(defers)), seen_(std::move(seen)) {}
  ActionLabel act() override {
    *seen_ += *defers_ ? 1 : 0;
    return Counter::act();
  }

 private:
  std::shared_ptr<Deferred> defers_;
  std::shared_ptr<std::atomic<int>> seen_;
};

/// Runs process 0 with so many threads, and process 1.
void run_in_two(const Graph& graph, int threads, const std::shared_ptr<Deferred>& defers) {
  const auto links = make_memory_links(graph, 2, 1);
  RunOptions options{.threads = threads, .processes = 2};
  options.bridge = std::make_shared<MemoryBridge>(links, 0);
  RunOptions elsewhere = options;
  DeliveryDeferral deferral;
  deferral.attach(*defers);
  options.deferral = &deferral;
  elsewhere.process = 1;
  elsewhere.bridge = std::make_shared<MemoryBridge>(links, 1);
  auto there = std::async(std::launch::async, [&] { return run(graph, elsewhere); });
  run(graph, options);
  there.get();
}

/// In how many of `count` actions of a process's only actor it was so.
int deferred_actions(int threads) {
  const auto defers = std::make_shared<Deferred>();
  const auto seen = std::make_shared<std::atomic<int>>(0);
  Graph graph;
  const auto witness = graph.add<Witness>("witness", defers, seen);
  const auto collector =
      graph.add<Collector>("collector", std::make_shared<std::vector<int>>(), std::size_t{count});
  graph.connect(witness, &Witness::out, collector, &Collector::in, {.slots = 2});
  graph.place(collector, 1);
  run_in_two(graph, threads, defers);
  EXPECT_FALSE(*defers) << "nothing was delivered after the last action";
  return *seen;
}

TEST(RunOverProcesses, DefersDeliveryOnlyWhileNoThreadIsFree) {
  EXPECT_EQ(deferred_actions(1), static_cast<int>(count));
  EXPECT_EQ(deferred_actions(2), 0);
}

/// Acts once, until messages may wait or its companion has seen that they may.
class Companion final : public Actor {
 public:
  Companion(std::shared_ptr<Deferred> defers, std::shared_ptr<std::atomic<bool>> met)
      : defers_(std::move(defers)), met_(std::move(met)) {}
  Output<int> out{this, "out"};
  bool ready() const override { return !acted_ && out.has_slot(); }
  ActionLabel act() override {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!*met_ && std::chrono::steady_clock::now() < limit)
      if (*defers_) *met_ = true;
    acted_ = true;
    out.send({}, 1);
    return {"act", {}};
  }

 private:
  std::shared_ptr<Deferred> defers_;
  std::shared_ptr<std::atomic<bool>> met_;
  bool acted_ = false;
};

TEST(RunOverProcesses, DefersDeliveryWhileBothThreadsAreAtWork) {
  const auto defers = std::make_shared<Deferred>();
  const auto met = std::make_shared<std::atomic<bool>>(false);
  Graph graph;
  const auto collector =
      graph.add<Collector>("collector", std::make_shared<std::vector<int>>(), std::size_t{2});
  for (const char* name : {"one", "other"})
    graph.connect(graph.add<Companion>(name, defers, met), &Companion::out, collector,
                  &Collector::in, {.slots = 1});
  graph.place(collector, 1);
  run_in_two(graph, 2, defers);
  EXPECT_TRUE(*met);
  EXPECT_FALSE(*defers);
}

TEST(RunOverProcesses, TheLeaderReportsAllActorsAndTheirProcesses) {
  const auto seen = std::make_shared<std::vector<int>>();
  const Graph graph = chain(seen, {0, 1, 2, 1});
  RunOptions options;
  options.trace = true;
  auto processes = start(graph, 1, options);
  const RunReport report = processes[0].get();
  ASSERT_EQ(report.actors.size(), 4u);
  EXPECT_EQ(report.actors[2].name, "adder/1");
  EXPECT_EQ(report.actors[2].process, 2u);
  EXPECT_EQ(report.actors[2].actions, count);
  EXPECT_EQ(report.actors[2].sent, std::vector<std::uint64_t>{count});
  EXPECT_EQ(report.trace.size(), 4u * count);
  EXPECT_EQ(processes[1].get().actors.size(), 2u);
  EXPECT_EQ(processes[2].get().actors.size(), 1u);
}

/// Sends the parts of a trace as they are.
class PartsOfTraces final : public Bridge {
 public:
  PartsOfTraces(std::shared_ptr<Bridge> inner, std::vector<std::size_t>* sizes)
      : inner_(std::move(inner)), sizes_(sizes) {}
  void open(OnMessage on_message, OnLost on_lost) override {
    inner_->open(std::move(on_message), std::move(on_lost));
  }
  void close() override { inner_->close(); }
  void send(std::uint32_t to, BridgeMessage message) override {
    const auto* report = std::get_if<RunMessage>(&message);
    if (const auto* part = report ? std::get_if<TracePart>(report) : nullptr)
      sizes_->push_back(part->events.size());
    inner_->send(to, std::move(message));
  }

 private:
  std::shared_ptr<Bridge> inner_;
  std::vector<std::size_t>* sizes_;
};

TEST(RunOverProcesses, SendsALongTraceInParts) {
  constexpr std::uint32_t many = TracePart::most_events;
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto counter = graph.add<Counter>("counter", many);
  const auto adder = graph.add<Adder>("adder");
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{many});
  graph.connect(counter, &Counter::out, adder, &Adder::in, {.slots = 4});
  graph.connect(adder, &Adder::out, collector, &Collector::in, {.slots = 4});
  graph.place(counter, 1);
  graph.place(adder, 1);
  std::vector<std::size_t> sizes;
  auto processes = start(graph, 1, {.trace = true}, [&](std::shared_ptr<Bridge> bridge) {
    return std::make_shared<PartsOfTraces>(std::move(bridge), &sizes);
  });
  EXPECT_EQ(processes[0].get().trace.size(), std::size_t{3} * many);
  EXPECT_EQ(processes[1].get().trace.size(), std::size_t{2} * many);
  EXPECT_EQ(sizes, (std::vector<std::size_t>{many, many}));
}

TEST(RunOverProcesses, MailboxesStayWithinTheSlots) {
  const auto seen = std::make_shared<std::vector<int>>();
  const Graph graph = chain(seen, {0, 1, 0, 1});
  auto processes = start(graph, 1);
  for (const ActorReport& actor : processes[0].get().actors)
    EXPECT_LE(actor.peak_mailbox, actor.mailbox_bound);
  processes[1].get();
}

TEST(RunOverProcesses, AnActorThatDiesIsReplacedInItsProcessAndNothingIsLost) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const char* name : {"counter", "adder/0", "adder/1"}) {
      const auto seen = std::make_shared<std::vector<int>>();
      const Graph graph = chain(seen, {0, 1, 2, 0});
      RunOptions options;
      options.faults = {{name, 0, static_cast<std::uint32_t>(seed * 4), ""}};
      auto processes = start(graph, seed, options);
      const RunReport report = processes[0].get();
      EXPECT_EQ(report.replacements, 1u);
      EXPECT_EQ(outcome(processes[1]), "done");
      EXPECT_EQ(outcome(processes[2]), "done");
      EXPECT_EQ(*seen, two_to_count_and_one()) << name << ", seed " << seed;
    }
  }
}

/// The leader of a run that ends while process 1 has a new incarnation which has not started:
/// process 0 still waits for one of its own actors to end.
class EndsDuringReplacement final : public Bridge {
 public:
  void open(OnMessage on_message, OnLost) override {
    on_message_ = std::move(on_message);
    order(Replacement{.phase = ReplacementPhase::prepare, .incarnation = 1, .actors = {0}});
  }
  void close() override { on_message_ = {}; }
  void send(std::uint32_t, BridgeMessage message) override {
    const auto* answer = std::get_if<RunMessage>(&message);
    if (!answer || !std::holds_alternative<Flushed>(*answer)) return;
    const Commit last{.step = 0, .snapshot = true, .last = true};
    order(last);
    order(Flushed{1});
    order(Replacement{.phase = ReplacementPhase::rewire, .incarnation = 1, .actors = {0}});
    order(Replacement{
        .phase = ReplacementPhase::start, .incarnation = 1, .actors = {0}, .newest = last});
    order(EndRun{.steps = 1});
  }

 private:
  void order(RunMessage message) const { on_message_(0, std::move(message)); }
  OnMessage on_message_;
};

/// Counts the commits that it hears of.
class Listener final : public Actor {
 public:
  explicit Listener(std::shared_ptr<int> heard) : heard_(std::move(heard)) {}
  bool ready() const override { return false; }
  ActionLabel act() override { return {}; }
  void on_commit(const Commit&) override { ++*heard_; }

 private:
  std::shared_ptr<int> heard_;
};

TEST(RunOverProcesses, AnEndDuringAReplacementReachesTheNewActorOnce) {
  const auto heard = std::make_shared<int>(0);
  Graph graph;
  graph.place(graph.add<Listener>("listener", heard), 1);
  run(graph, {.process = 1, .processes = 2, .bridge = std::make_shared<EndsDuringReplacement>()});
  EXPECT_EQ(*heard, 1);
}

TEST(RunOverProcesses, SurvivesDeathsOfNeighboursAtOnce) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto seen = std::make_shared<std::vector<int>>();
    const Graph graph = chain(seen, {1, 0, 2, 0});
    RunOptions options;
    options.faults = {{"counter", 0, 12, ""}, {"adder/1", 0, 10, ""}};
    auto processes = start(graph, seed, options);
    for (auto& process : processes) EXPECT_EQ(outcome(process), "done");
    EXPECT_EQ(*seen, two_to_count_and_one()) << "seed " << seed;
  }
}

TEST(RunOverProcesses, FailsInEveryProcessWithTheSameRootCause) {
  const auto seen = std::make_shared<std::vector<int>>();
  const Graph graph = chain(seen, {0, 1, 2, 1});
  RunOptions options;
  options.restarts.max = 0;
  options.faults = {{"adder/1", 0, 17, ""}};
  for (auto& process : start(graph, 1, options))
    EXPECT_THAT(outcome(process), HasSubstr("adder/1 failed: injected fault"));
}

TEST(RunOverProcesses, AStopInAnyProcessEndsAll) {
  const auto seen = std::make_shared<std::vector<int>>();
  Graph graph;
  const auto counter = graph.add<Counter>("counter", count);
  const auto collector = graph.add<Collector>("collector", seen, std::size_t{count + 1});
  graph.connect(counter, &Counter::out, collector, &Collector::in);
  graph.place(collector, 1);
  std::stop_source stop;
  RunOptions options;
  options.stop = stop.get_token();
  auto processes = start(graph, 1, options);
  stop.request_stop();
  for (auto& process : processes) EXPECT_EQ(outcome(process), "done");
}

TEST(RunOverProcesses, ALostProcessEndsTheRunInTheOthers) {
  const auto seen = std::make_shared<std::vector<int>>();
  const Graph graph = chain(seen, {0, 1, 2, 0});
  const auto links = make_memory_links(graph, 3, 1);
  RunOptions options;
  std::vector<std::future<RunReport>> processes;
  for (std::uint32_t here : {0u, 1u}) {  // 2 never comes
    options.process = here;
    options.processes = 3;
    options.bridge = std::make_shared<MemoryBridge>(links, here);
    processes.push_back(
        std::async(std::launch::async, [&graph, options] { return run(graph, options); }));
  }
  const Error lost(ErrorCode::peer_lost, "process 2 on host3 is gone");
  (*links)[2][0]->send(lost);
  (*links)[2][1]->send(lost);
  for (auto& process : processes) EXPECT_EQ(outcome(process), "process 2 on host3 is gone");
}

TEST(RunOverProcesses, EndsWhenTheLeaderIsLost) {
  const auto seen = std::make_shared<std::vector<int>>();
  const Graph graph = chain(seen, {0, 1, 1, 0});
  const auto links = make_memory_links(graph, 2, 1);
  RunOptions options;
  options.process = 1;
  options.processes = 2;
  options.bridge = std::make_shared<MemoryBridge>(links, 1);
  auto process = std::async(std::launch::async, [&graph, options] { return run(graph, options); });
  (*links)[0][1]->send(Error(ErrorCode::peer_lost, "the lead is gone"));
  EXPECT_EQ(outcome(process), "the lead is gone");
}

TEST(RunOverProcesses, RefusesAMessageThatIsNoPartOfTheRun) {
  const auto seen = std::make_shared<std::vector<int>>();
  const Graph graph = chain(seen, {0, 1, 1, 0});
  const auto links = make_memory_links(graph, 2, 1);
  RunOptions options;
  options.process = 1;
  options.processes = 2;
  options.bridge = std::make_shared<MemoryBridge>(links, 1);
  auto process = std::async(std::launch::async, [&graph, options] { return run(graph, options); });
  (*links)[0][1]->send(Credit{.edge = 2, .slot = 99});
  EXPECT_THAT(outcome(process), HasSubstr("rank 0 sent slot 99 of edge 2"));
}

TEST(Placement, RefusesTypesThatCannotLeaveAProcess) {
  struct Opaque {
    std::shared_ptr<int> pointer;
  };
  struct From final : Actor {
    Output<Opaque> out{this, "out"};
    ActionLabel act() override { return {}; }
  };
  struct To final : Actor {
    Input<Opaque> in{this, "in"};
    ActionLabel act() override { return {}; }
  };
  Graph graph;
  const auto from = graph.add<From>("from");
  const auto to = graph.add<To>("to");
  graph.connect(from, &From::out, to, &To::in);
  EXPECT_NO_THROW(Placement(graph, 0, 2));
  graph.place(to, 1);
  EXPECT_NO_THROW(Placement(graph, 0, 1));  // all are in the one there is
  try {
    const Placement refused(graph, 0, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("from.out → to.in goes from rank 0 to 1"));
  }
}

TEST(Placement, RefusesProcessesBeyondTheLast) {
  const auto seen = std::make_shared<std::vector<int>>();
  try {
    const Placement refused(chain(seen, {0, 1, 7, 0}), 0, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_graph);
    EXPECT_THAT(error.message(),
                ::testing::ContainsRegex(
                    "actor .+ is placed in process 7, .* processes of this run are 0 to 1"));
  }
}

}  // namespace
}  // namespace troupe
