#include "runtime/flow/graph.h"

#include <gmock/gmock.h>

#include "workers.h"

namespace troupe {
namespace {

using testing::Adder;
using testing::Counter;
using ::testing::HasSubstr;

/// Made from options that a caller may write in braces.
struct Doubler final : Actor {
  struct Options {
    int times = 2;
  };
  explicit Doubler(Options made_from) : options(made_from) {}
  ActionLabel act() override { return {}; }
  Options options;
};

TEST(ComposedGraph, KeepsOptionsForEveryIncarnation) {
  Graph graph;
  const auto doubler = graph.add<Doubler>("doubler", {.times = 3});
  for (int incarnation = 0; incarnation < 2; ++incarnation) {
    const auto actor = graph.make_actor(doubler.index);
    EXPECT_EQ(dynamic_cast<Doubler&>(*actor).options.times, 3);
  }
}

TEST(ComposedGraph, FindsAnActorToConnectMoreTo) {
  Graph graph;
  graph.add<Counter>("counter", std::uint32_t{5});
  const auto adder = graph.add<Adder>("adder");
  graph.connect(graph.find<Counter>("counter"), &Counter::out, adder, &Adder::in);
  EXPECT_EQ(graph.edge_name(0), "counter.out → adder.in");
}

TEST(ComposedGraph, HasNoEdgeThatItHasRefused) {
  Graph graph;
  const auto counter = graph.add<Counter>("counter", std::uint32_t{5});
  const auto adder = graph.add<Adder>("adder");
  try {
    graph.connect(counter, &Counter::out, adder, &Adder::in, {.slots = 0});
    FAIL() << "an edge without slots was made";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "edge counter.out → adder.in has no slots");
  }
  EXPECT_TRUE(graph.edges().empty());
}

TEST(ComposedGraph, NamesTheNearestActorWhereThereIsNone) {
  Graph graph;
  graph.add<Adder>("adder");
  try {
    graph.find<Adder>("addder");
    FAIL() << "a misspelt name was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_graph);
    EXPECT_THAT(error.message(), HasSubstr("'addder'"));
    EXPECT_EQ(error.remedy(), "did you mean adder? There are adder");
  }
}

TEST(ComposedGraph, ListsItsActorsWhereNoneIsNear) {
  Graph graph;
  graph.add<Adder>("adder");
  try {
    graph.find<Adder>("monitor");
    FAIL() << "an unknown name was found";
  } catch (const Error& error) {
    EXPECT_EQ(error.remedy(), "there are adder");
  }
}

TEST(ComposedGraph, RefusesAnActorOfAnotherType) {
  Graph graph;
  graph.add<Adder>("adder");
  EXPECT_THROW(graph.find<Counter>("adder"), Error);
}

}  // namespace
}  // namespace troupe
