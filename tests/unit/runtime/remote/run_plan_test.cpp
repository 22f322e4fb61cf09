#include "runtime/remote/run_plan.h"

#include <functional>
#include <optional>

#include "tests/unit/runtime/control/world.h"
#include "tests/unit/runtime/flow/workers.h"

namespace troupe {
namespace {

using control_test::TestWorld;
using testing::Adder;
using testing::Collector;
using testing::Counter;
using ::testing::HasSubstr;

/// A counter on rank 0 whose numbers come back to it by way of process 1.
Graph counting(std::uint32_t slots = 2, std::uint32_t adder_in = 1) {
  Graph graph;
  const auto counter = graph.add<Counter>("counter", 3u);
  const auto adder = graph.add<Adder>("adder");
  const auto collector =
      graph.add<Collector>("collector", std::make_shared<std::vector<int>>(), std::size_t{3});
  graph.place(adder, adder_in);
  graph.connect(counter, &Counter::out, adder, &Adder::in, {.slots = slots});
  graph.connect(adder, &Adder::out, collector, &Collector::in);
  return graph;
}

std::string plan_of(const Graph& graph, const Member& member, TransportKind transport) {
  const Placement placement(graph, static_cast<std::uint32_t>(member.rank()),
                            static_cast<std::uint32_t>(member.size()));
  return run_plan(graph, placement, member, transport);
}

TEST(RunPlan, ListsTheEdgesOfEachCommunicator) {
  TestWorld world(3);
  EXPECT_EQ(plan_of(counting(), *world.members[1], TransportKind::automatic),
            "actor 0: counter on rank 0\n"
            "actor 1: adder on rank 1\n"
            "actor 2: collector on rank 0\n"
            "by the shared memory of ranks 0, 1, 2:\n"
            "edge 0: counter.out → adder.in, rank 0 to 1, 2 slots\n"
            "edge 1: adder.out → collector.in, rank 1 to 0, 2 slots\n");
  EXPECT_THAT(plan_of(counting(), *world.members[2], TransportKind::gloo),
              HasSubstr("by Gloo between all 3 processes:\nedge 0: "));
  EXPECT_THAT(plan_of(counting(2, 0), *world.members[0], TransportKind::automatic),
              HasSubstr("within a process:\nedge 0: "));
}

/// What each process hears when they compare these.
std::vector<std::string> compare(TestWorld& world,
                                 const std::function<std::string(std::size_t rank)>& plan) {
  std::vector<std::string> heard(world.members.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < heard.size(); ++rank)
    threads.emplace_back([&, rank] {
      const Status same = check_same_plan(*world.members[rank], plan(rank), control_test::patience);
      if (!same) heard[rank] = same.error().what();
    });
  threads.clear();
  return heard;
}

TEST(RunPlan, IsTheSameForAllWhoBuiltTheSameGraph) {
  TestWorld world(3);
  const auto heard = compare(world, [&](std::size_t rank) {
    return plan_of(counting(), *world.members[rank], TransportKind::automatic);
  });
  EXPECT_THAT(heard, ::testing::Each(""));
}

TEST(RunPlan, NamesBothProcessesAndWhatDiffersFirst) {
  TestWorld world(3);
  const auto heard = compare(world, [&](std::size_t rank) {
    const Graph graph = rank == 1 ? counting(4) : rank == 2 ? counting(2, 2) : counting();
    return plan_of(graph, *world.members[rank], TransportKind::automatic);
  });
  EXPECT_EQ(heard[0], "");
  EXPECT_THAT(heard[1], HasSubstr("rank 1 on "));
  EXPECT_THAT(heard[1], HasSubstr("has another graph than rank 0 on "));
  EXPECT_THAT(heard[1], HasSubstr("'edge 0: counter.out → adder.in, rank 0 to 1, 4 slots' here, "
                                  "'edge 0: counter.out → adder.in, rank 0 to 1, 2 slots' there"));
  EXPECT_THAT(heard[2], HasSubstr("'actor 1: adder on rank 2' here, 'actor 1: adder on rank "
                                  "1' there"));
}

TEST(RunPlan, OfAWorldOfOneHasAllActorsInIt) {
  TestWorld world(1);
  EXPECT_EQ(plan_of(counting(), *world.members[0], TransportKind::automatic),
            "actor 0: counter on rank 0\n"
            "actor 1: adder on rank 0\n"
            "actor 2: collector on rank 0\n"
            "within a process:\n"
            "edge 0: counter.out → adder.in, rank 0 to 0, 2 slots\n"
            "edge 1: adder.out → collector.in, rank 0 to 0, 2 slots\n");
}

TEST(RunPlan, EndsTheWaitForAProcessThatIsLost) {
  TestWorld world(2);
  std::jthread lost([&] { world.members[0].reset(); });  // without a goodbye, and without a plan
  const Status told = check_same_plan(*world.members[1], "plan", control_test::patience);
  ASSERT_FALSE(told);
  EXPECT_EQ(told.error().code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace troupe
