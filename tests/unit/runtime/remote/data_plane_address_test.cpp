// Where the data plane of members listens.
#include <arpa/inet.h>
#include <sys/socket.h>

#include <filesystem>
#include <set>

#include "runtime/remote/data_plane.h"
#include "tests/unit/runtime/control/world.h"

namespace troupe {
namespace {

/// The IPv4 addresses of this process's sockets, "other" for those of other families but Unix. Also
/// of connected ones: Gloo stops to listen when all are connected.
std::set<std::string> own_addresses() {
  std::set<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    const int fd = std::stoi(entry.path().filename());
    sockaddr_storage own{};
    socklen_t own_length = sizeof own;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &own_length) != 0 ||
        own.ss_family == AF_UNIX)
      continue;
    char text[INET_ADDRSTRLEN] = "other";
    if (own.ss_family == AF_INET)
      ::inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in&>(own).sin_addr, text, sizeof text);
    found.insert(text);
  }
  return found;
}

TEST(DataPlaneAddress, OfGlooIsLoopbackWhereTheMembersMeetOnLoopback) {
  control_test::TestWorld world(2);
  std::vector<std::unique_ptr<DataPlane>> planes(2);
  const auto before = own_addresses();
  EXPECT_EQ(before, std::set<std::string>{"127.0.0.1"});
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        planes[rank] = std::move(
            DataPlane::connect(
                *world.members[rank],
                {.transport = "gloo", .interface = "", .timeout = std::chrono::seconds(60)})
                .value());
      });
  }
  EXPECT_EQ(own_addresses(), before);
}

}  // namespace
}  // namespace troupe
