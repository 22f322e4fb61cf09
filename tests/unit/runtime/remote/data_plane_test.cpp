#include "runtime/remote/data_plane.h"

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "runtime/transport/wait.h"
#include "tests/unit/runtime/control/world.h"

namespace troupe {
namespace {

using control_test::TestWorld;

/// The data planes of two processes of this host, as threads.
std::vector<std::unique_ptr<DataPlane>> connect(TestWorld& world, const std::string& transport) {
  std::vector<std::unique_ptr<DataPlane>> planes(world.members.size());
  std::vector<std::jthread> threads;
  for (std::size_t rank = 0; rank < planes.size(); ++rank)
    threads.emplace_back([&, rank] {
      auto connected = DataPlane::connect(*world.members[rank], {.transport = transport});
      planes[rank] = std::move(connected.value());
    });
  threads.clear();
  return planes;
}

class DataPlaneOfOneHost : public ::testing::TestWithParam<std::pair<std::string, std::string>> {};

// Results are the same bits either way, so nothing else would tell.
TEST_P(DataPlaneOfOneHost, TakesTheTransportThatWasAskedFor) {
  const auto [transport, taken] = GetParam();
  TestWorld world(2);
  const auto planes = connect(world, transport);
  for (const int rank : {0, 1})
    EXPECT_EQ(
        planes[static_cast<std::size_t>(rank)]->route(1 - rank, Device::cpu()).transport->name,
        taken);
  const Tensor sent = Tensor::from<float>(Shape{3}, std::array{1.0f, 2.0f, 3.0f});
  const auto received = planes[1]->receive(0, Device::cpu(), 7, TensorMeta::of(sent));
  const auto work = planes[0]->send(1, Device::cpu(), 7, sent);
  ASSERT_TRUE(wait_for(received));
  EXPECT_EQ(received->tensor().elements<float>()[2], 3);
  ASSERT_TRUE(wait_for(work));
}

// Its connections end with it, which would be all that they hear.
TEST_P(DataPlaneOfOneHost, TellsThePeersWhyItFails) {
  TestWorld world(2);
  auto planes = connect(world, GetParam().first);
  const auto awaited = planes[1]->receive(0, Device::cpu(), 7, {.shape = {3}});
  planes[0]->fail(Error(ErrorCode::peer_lost, "rank 5 is lost: its host burns"));
  planes[0].reset();
  const Status status = wait_for(awaited);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message(), "rank 5 is lost: its host burns");
}

INSTANTIATE_TEST_SUITE_P(Each, DataPlaneOfOneHost,
                         ::testing::Values(std::pair{"auto", "shm"}, std::pair{"shm", "shm"},
                                           std::pair{"gloo", "gloo"}));

}  // namespace
}  // namespace troupe
