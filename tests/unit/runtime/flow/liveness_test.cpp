#include "runtime/flow/liveness.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <numeric>
#include <random>

#include "runtime/flow/run.h"
#include "workers.h"

namespace troupe {
namespace {

using ::testing::HasSubstr;
using testing::Worker;

TEST(Liveness, AcceptsAChainWithOneSlotAnEdge) {
  Graph graph;
  const auto a = graph.add<testing::Counter>("a", 3u);
  const auto b = graph.add<testing::Adder>("b");
  graph.connect(a, &testing::Counter::out, b, &testing::Adder::in, {.slots = 1});
  EXPECT_FALSE(find_deadlock(graph));
}

TEST(Liveness, NamesTheCycleOfActorsThatWaitForEachOther) {
  Graph graph;
  graph.add<Worker>("left", Worker::Rates{{1}, {1}, 1});
  graph.add<Worker>("right", Worker::Rates{{1}, {1}, 1});
  graph.connect_ports(0, 0, 1, 0, {.slots = 5});
  graph.connect_ports(1, 0, 0, 0, {.slots = 5});
  const auto deadlock = find_deadlock(graph);
  ASSERT_TRUE(deadlock);
  ASSERT_EQ(deadlock->cycle.size(), 2u);
  EXPECT_THAT(to_string(*deadlock),
              HasSubstr("left fire waits for a message on right.out0 → left.in0"));
  EXPECT_THAT(to_string(*deadlock),
              HasSubstr("right fire waits for a message on left.out0 → right.in0"));
}

/// Each member is blocked by what only the next one can give: a message on an edge from it, or a
/// free slot of an edge to it.
void expect_cycle(const Graph& graph, const Deadlock& deadlock) {
  const std::size_t count = deadlock.cycle.size();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string &here = deadlock.cycle[i], &there = deadlock.cycle[(i + 1) % count];
    const std::string me = here.substr(0, here.find(' ')), next = there.substr(0, there.find(' '));
    bool blocked = false;
    for (std::size_t id = 0; id < graph.edges().size(); ++id) {
      const std::string& from = graph.actors()[graph.edges()[id].from].name;
      const std::string& to = graph.actors()[graph.edges()[id].to].name;
      blocked |= to == me && from == next &&
                 here.ends_with("waits for a message on " + graph.edge_name(id));
      blocked |= from == me && to == next &&
                 here.ends_with("waits for a free slot on " + graph.edge_name(id));
    }
    EXPECT_TRUE(blocked) << here << ", but the next is " << next;
  }
}

TEST(Liveness, NamesEveryMemberOfALongCycle) {
  for (const std::size_t members : {3u, 4u, 7u}) {
    Graph graph;
    for (std::size_t i = 0; i < members; ++i)
      graph.add<Worker>(fmt::format("w{}", i), Worker::Rates{{1}, {1}, 1});
    for (std::size_t i = 0; i < members; ++i)
      graph.connect_ports(i, 0, (i + 1) % members, 0, {.slots = 5});
    const auto deadlock = find_deadlock(graph);
    ASSERT_TRUE(deadlock);
    EXPECT_EQ(deadlock->cycle.size(), members);
    expect_cycle(graph, *deadlock);
  }
}

TEST(Liveness, SaysHowManySlotsAreMissing) {
  Graph graph;
  graph.add<Worker>("bursts", Worker::Rates{{}, {3}, 1});
  graph.add<Worker>("sips", Worker::Rates{{1}, {}, 3});
  graph.connect_ports(0, 0, 1, 0, {.slots = 2});
  const auto deadlock = find_deadlock(graph);
  ASSERT_TRUE(deadlock);
  EXPECT_EQ(deadlock->remedy, "give bursts.out0 → sips.in0 at least 3 slots, 1 more");
}

TEST(Liveness, RefusesRatesThatPileUpMessages) {
  Graph graph;
  graph.add<Worker>("source", Worker::Rates{{}, {1, 2}, 1});
  graph.add<Worker>("sink", Worker::Rates{{1, 1}, {}, 1});
  graph.connect_ports(0, 0, 1, 0, {.slots = 9});
  graph.connect_ports(0, 1, 1, 1, {.slots = 9});
  EXPECT_THROW(find_deadlock(graph), Error);
}

TEST(Liveness, RefusesADeadlockBeforeTheRunBegins) {
  Graph graph;
  graph.add<Worker>("bursts", Worker::Rates{{}, {3}, 1});
  graph.add<Worker>("sips", Worker::Rates{{1}, {}, 3});
  graph.connect_ports(0, 0, 1, 0, {.slots = 2});
  EXPECT_THROW(run(graph, {}), Error);
}

// Actor i fires q[i] times an iteration; rates follow from that, so they never contradict.
Graph random_graph(std::mt19937 random, bool hides_rules) {
  const auto pick = [&](std::uint32_t from, std::uint32_t to) {
    return std::uniform_int_distribution<std::uint32_t>(from, to)(random);
  };
  const std::uint32_t count = pick(2, 6);
  std::vector<std::uint32_t> q(count);
  for (auto& times : q) times = pick(1, 3);
  std::vector<Worker::Rates> rates(count);
  struct Link {
    std::size_t from, output, to, input;
    EdgeOptions options;
  };
  std::vector<Link> links;
  const std::uint32_t edges = count - 1 + pick(0, 3);
  for (std::uint32_t e = 0; e < edges; ++e) {
    std::uint32_t to = e < count - 1 ? e + 1 : pick(1, count - 1);
    std::uint32_t from = pick(0, to - 1);
    if (pick(0, 19) == 0) std::swap(from, to);  // sometimes a way back
    const std::uint32_t common = std::lcm(q[from], q[to]);
    const std::uint32_t fills = common / q[from], takes = common / q[to];
    links.push_back({from,
                     rates[from].fills.size(),
                     to,
                     rates[to].takes.size(),
                     {.slots = pick(std::max(1u, fills + takes - 2), fills + takes + 2)}});
    rates[from].fills.push_back(fills);
    rates[to].takes.push_back(takes);
  }
  Graph graph;
  for (std::uint32_t i = 0; i < count; ++i) {
    rates[i].limit = 3 * q[i];
    rates[i].hides_rules = hides_rules;
    graph.add<Worker>("w" + std::to_string(i), rates[i]);
  }
  for (const Link& link : links)
    graph.connect_ports(link.from, link.output, link.to, link.input, link.options);
  return graph;
}

bool hangs(const Graph& graph, std::uint64_t seed) {
  RunOptions options;
  options.scheduling = Scheduling::deterministic;
  options.seed = seed;
  try {
    run(graph, options);
    return false;
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("deadlocked"));
    return true;
  }
}

TEST(Liveness, SaysDeadlockExactlyWhereExecutionHangs) {
  std::mt19937 random(20261121);
  int deadlocks = 0;
  constexpr int graphs = 10000;
  for (int i = 0; i < graphs; ++i) {
    const std::mt19937 source(random());
    const Graph graph = random_graph(source, false);
    const auto deadlock = find_deadlock(graph);
    // The run proves nothing of the same graph without its rules.
    ASSERT_EQ(deadlock.has_value(), hangs(random_graph(source, true), random() | 1u))
        << "graph " << i;
    if (deadlock) {
      SCOPED_TRACE("graph " + std::to_string(i));
      expect_cycle(graph, *deadlock);
    }
    deadlocks += deadlock.has_value();
  }
  // Both answers were tried often enough to mean something.
  EXPECT_GT(deadlocks, graphs / 20);
  EXPECT_LT(deadlocks, graphs * 19 / 20);
}

}  // namespace
}  // namespace troupe
