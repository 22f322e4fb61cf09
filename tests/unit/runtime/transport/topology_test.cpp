#include "runtime/transport/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/tensor/backend.h"

namespace troupe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

/// Ranks 0 and 1 on a, 2 and 3 on b.
std::vector<ProcessPlace> two_hosts() {
  return {{"a", "1/net"}, {"a", "1/net"}, {"b", "2/net"}, {"b", "2/net"}};
}

TEST(TransportTopology, TakesTheFirstTransportThatJoinsAPair) {
  const TransportTopology topology(two_hosts(), "auto");
  EXPECT_EQ(topology.between(0, 1, {}).name, "shm");
  EXPECT_EQ(topology.between(1, 2, {}).name, "gloo");
  const TransportTopology gloo(two_hosts(), "gloo");
  EXPECT_EQ(gloo.between(0, 1, {}).name, "gloo");
}

TEST(TransportTopology, GroupsTheProcessesThatATransportConnects) {
  const auto groups = TransportTopology(two_hosts(), "auto").groups_of(2, {});
  ASSERT_THAT(groups, SizeIs(2));
  EXPECT_EQ(groups[0].transport->name, "shm");
  EXPECT_THAT(groups[0].ranks, ElementsAre(2, 3));
  EXPECT_EQ(groups[1].transport->name, "gloo");
  EXPECT_THAT(groups[1].ranks, ElementsAre(0, 1, 2, 3));
}

TEST(TransportTopology, HasNoGroupForATransportThatNoPairUses) {
  const std::vector<ProcessPlace> one_host(3, {"a", "1/net"});
  const auto groups = TransportTopology(one_host, "auto").groups_of(0, {});
  ASSERT_THAT(groups, SizeIs(1));
  EXPECT_EQ(groups[0].transport->name, "shm");
  EXPECT_THAT(TransportTopology({{"a", "1/net"}}, "gloo").groups_of(0, {}), IsEmpty());
}

TEST(TransportTopology, NamesTwoProcessesThatTheTransportDoesNotJoin) {
  try {
    TransportTopology(two_hosts(), "shm");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_EQ(error.message(), "`transport` is shm, but rank 0 is on a and rank 2 on b");
    EXPECT_EQ(error.remedy(),
              "set `transport` to auto (shared memory within a host, Gloo between hosts) or gloo");
  }
}

TEST(TransportTopology, HasNoRouteForTensorsThatNoTransportCarries) {
  static constexpr Backend backend{.name = "gpu"};
  const Device gpu{&backend, 1};
  for (const char* transport : {"auto", "gloo"}) {
    const TransportTopology topology(two_hosts(), transport);
    EXPECT_THAT(topology.groups_of(0, gpu), IsEmpty());
    try {
      topology.between(1, 2, gpu);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_EQ(error.message(),
                "rank 1 sends tensors on gpu:1 to rank 2, which no transport of this run carries");
    }
  }
}

TEST(TransportTopology, ListsTheTransportsThereAreForAnUnknownName) {
  try {
    TransportTopology(two_hosts(), "mpi");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_options);
    EXPECT_THAT(error.what(), HasSubstr("no transport is called 'mpi'"));
    EXPECT_EQ(error.remedy(), "set `transport` to auto, shm, gloo");
  }
}

TEST(TransportTopology, SummarizesWhatItUses) {
  EXPECT_EQ(TransportTopology(two_hosts(), "auto").summary(),
            "shared memory within a host, Gloo between");
  EXPECT_EQ(TransportTopology(two_hosts(), "gloo").summary(), "Gloo");
  EXPECT_EQ(TransportTopology({{"a", "1/net"}, {"a", "1/net"}}, "auto").summary(), "shared memory");
  EXPECT_EQ(TransportTopology({{"a", "1/net"}, {"b", "2/net"}}, "auto").summary(), "Gloo");
}

TEST(TransportTopology, TellsWhatAChoiceMeansWithoutProcesses) {
  EXPECT_EQ(meaning_of_transport("auto"), "shared memory within a host, Gloo between hosts");
  EXPECT_TRUE(joins_hosts("auto"));
  EXPECT_TRUE(joins_hosts("gloo"));
  EXPECT_FALSE(joins_hosts("shm"));
}

}  // namespace
}  // namespace troupe
