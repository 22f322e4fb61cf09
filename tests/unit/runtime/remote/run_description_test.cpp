#include "runtime/remote/run_description.h"

#include <functional>
#include <optional>

#include "runtime/remote/data_plane.h"
#include "runtime/tensor/backend.h"
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

std::string description_of(const Graph& graph, const Member& member,
                           const std::string& transport = "auto") {
  const Placement placement(graph, static_cast<std::uint32_t>(member.rank()),
                            static_cast<std::uint32_t>(member.size()));
  return run_description(graph, placement, topology_of(member, {.transport = transport}));
}

TEST(RunDescription, ListsTheEdgesOfEachCommunicator) {
  TestWorld world(3);
  EXPECT_EQ(description_of(counting(), *world.members[1]),
            "actor 0: counter on rank 0\n"
            "actor 1: adder on rank 1\n"
            "actor 2: collector on rank 0\n"
            "shared memory between ranks 0-2:\n"
            "edge 0: counter.out → adder.in, rank 0 to 1, 2 slots\n"
            "edge 1: adder.out → collector.in, rank 1 to 0, 2 slots\n");
  EXPECT_THAT(description_of(counting(), *world.members[2], "gloo"),
              HasSubstr("Gloo between ranks 0-2:\nedge 0: "));
  EXPECT_THAT(description_of(counting(2, 0), *world.members[0]),
              HasSubstr("within a process:\nedge 0: "));
}

TEST(RunDescription, RefusesAnEdgeWhoseTensorsNoTransportCarries) {
  static constexpr Backend backend{.name = "gpu"};
  TestWorld world(2);
  const auto description = [&](std::uint32_t collector_in) {
    Graph graph;
    const auto counter = graph.add<Counter>("counter", 3u);
    const auto collector =
        graph.add<Collector>("collector", std::make_shared<std::vector<int>>(), std::size_t{3});
    graph.place(collector, collector_in);
    graph.connect(counter, &Counter::out, collector, &Collector::in, {.device = {&backend, 0}});
    return description_of(graph, *world.members[0]);
  };
  EXPECT_THAT(description(0), HasSubstr("within a process:\nedge 0: "));
  try {
    description(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("rank 0 sends tensors on gpu:0 to rank 1"));
  }
}

/// The error of each process when they compare their descriptions.
std::vector<std::string> compare(TestWorld& world,
                                 const std::function<std::string(std::size_t rank)>& description) {
  std::vector<std::string> heard(world.members.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < heard.size(); ++rank)
    threads.emplace_back([&, rank] {
      const Status same =
          check_same_description(*world.members[rank], description(rank), control_test::patience);
      if (!same) heard[rank] = same.error().what();
    });
  threads.clear();
  return heard;
}

TEST(RunDescription, IsTheSameForAllWhoBuiltTheSameGraph) {
  TestWorld world(3);
  const auto heard = compare(
      world, [&](std::size_t rank) { return description_of(counting(), *world.members[rank]); });
  EXPECT_THAT(heard, ::testing::Each(""));
}

TEST(RunDescription, NamesBothProcessesAndWhatDiffersFirst) {
  TestWorld world(3);
  const auto heard = compare(world, [&](std::size_t rank) {
    const Graph graph = rank == 1 ? counting(4) : rank == 2 ? counting(2, 2) : counting();
    return description_of(graph, *world.members[rank]);
  });
  EXPECT_EQ(heard[0], "");
  EXPECT_THAT(heard[1], HasSubstr("rank 1 on "));
  EXPECT_THAT(heard[1], HasSubstr("has a different graph from rank 0 on "));
  EXPECT_THAT(heard[1], HasSubstr("'edge 0: counter.out → adder.in, rank 0 to 1, 4 slots' here, "
                                  "'edge 0: counter.out → adder.in, rank 0 to 1, 2 slots' there"));
  EXPECT_THAT(heard[2], HasSubstr("'actor 1: adder on rank 2' here, 'actor 1: adder on rank "
                                  "1' there"));
}

TEST(RunDescription, OfAWorldOfOneHasAllActorsInIt) {
  TestWorld world(1);
  EXPECT_EQ(description_of(counting(), *world.members[0]),
            "actor 0: counter on rank 0\n"
            "actor 1: adder on rank 0\n"
            "actor 2: collector on rank 0\n"
            "within a process:\n"
            "edge 0: counter.out → adder.in, rank 0 to 0, 2 slots\n"
            "edge 1: adder.out → collector.in, rank 0 to 0, 2 slots\n");
}

TEST(RunDescription, EndsTheWaitForAProcessThatIsLost) {
  TestWorld world(2);
  std::jthread lost(
      [&] { world.members[0].reset(); });  // without a closing message or a description
  const Status reported =
      check_same_description(*world.members[1], "description", control_test::patience);
  ASSERT_FALSE(reported);
  EXPECT_EQ(reported.error().code(), ErrorCode::peer_lost);
}

}  // namespace
}  // namespace troupe
