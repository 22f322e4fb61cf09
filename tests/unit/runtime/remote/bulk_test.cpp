#include "runtime/remote/bulk.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "tests/unit/runtime/control/world.h"

namespace troupe {
namespace {

using control_test::TestWorld;

/// The bulk planes of two processes of this host, as threads.
std::vector<std::unique_ptr<Bulk>> connect(TestWorld& world, TransportKind transport) {
  std::vector<std::unique_ptr<Bulk>> bulks(world.members.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < bulks.size(); ++rank)
    threads.emplace_back([&, rank] {
      auto connected = Bulk::connect(*world.members[rank], {.transport = transport});
      bulks[rank] = std::move(connected.value());
    });
  threads.clear();
  return bulks;
}

class BulkOfOneHost : public ::testing::TestWithParam<std::pair<TransportKind, bool>> {};

// Results are the same bits either way, so nothing else would tell.
TEST_P(BulkOfOneHost, TakesTheTransportThatWasAskedFor) {
  const auto [transport, shares_memory] = GetParam();
  TestWorld world(2);
  const auto bulks = connect(world, transport);
  for (const int rank : {0, 1})
    EXPECT_EQ(bulks[static_cast<std::size_t>(rank)]->route(1 - rank).shares_memory, shares_memory);
  const Tensor sent = Tensor::from<float>(Shape{3}, std::array{1.0f, 2.0f, 3.0f});
  const auto received = bulks[1]->receive(0, 7, TensorMeta::of(sent));
  const auto work = bulks[0]->send(1, 7, sent);
  ASSERT_TRUE(received->wait());
  EXPECT_EQ(received->tensor().elements<float>()[2], 3);
  ASSERT_TRUE(work->wait());
}

// Its connections end with it, which would be all that they hear.
TEST_P(BulkOfOneHost, TellsThePeersWhyItFails) {
  TestWorld world(2);
  auto bulks = connect(world, GetParam().first);
  const auto awaited = bulks[1]->receive(0, 7, {.shape = {3}});
  bulks[0]->fail(Error(ErrorCode::peer_lost, "rank 5 is lost: its host burns"));
  bulks[0].reset();
  const Status status = awaited->wait();
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "rank 5 is lost: its host burns");
}

INSTANTIATE_TEST_SUITE_P(Each, BulkOfOneHost,
                         ::testing::Values(std::pair{TransportKind::automatic, true},
                                           std::pair{TransportKind::shm, true},
                                           std::pair{TransportKind::gloo, false}));

}  // namespace
}  // namespace troupe
