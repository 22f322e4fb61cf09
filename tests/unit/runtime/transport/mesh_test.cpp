// The memory of operations that are cut.
#include "runtime/transport/gloo/mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "memory_store.h"
#include "runtime/transport/store.h"

namespace troupe::transport {
namespace {

/// Two ranks of one process.
struct Pair {
  MemoryStore store;
  std::array<std::optional<Mesh>, 2> meshes;

  void connect(int rank) {
    meshes[static_cast<std::size_t>(rank)].emplace(
        TransportGroup{.store = store, .rank = rank, .size = 2});
  }

  Pair() {
    const std::jthread other([this] { connect(1); });
    connect(0);
  }
};

// The caller may free that memory, or use it for something else.
TEST(Mesh, HasGlooTouchNoMemoryOnceItIsCut) {
  constexpr std::size_t size = 32 << 20;
  constexpr std::size_t page = 4096;
  constexpr int rounds = 40;
  std::vector<char> from(size, 'x'), to(size);
  int cut_short = 0;
  for (int round = 0; round < rounds; ++round) {
    Pair pair;
    std::fill(to.begin(), to.end(), '-');
    const Mesh::Buffer sending = pair.meshes[0]->buffer_to(1, from.data(), size);
    const Mesh::Buffer receiving = pair.meshes[1]->buffer_from(0, to.data(), size);
    receiving->recv(0, 7, 0, size);
    sending->send(1, 7, 0, size);
    std::this_thread::sleep_for(std::chrono::microseconds(300 + 100 * (round % 20)));
    pair.meshes[1]->cut();
    std::vector<char> at_once;
    for (std::size_t at = 0; at < size; at += page) at_once.push_back(to[at]);
    if (at_once.back() == '-') ++cut_short;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    for (std::size_t i = 0; i < at_once.size(); ++i)
      ASSERT_EQ(to[i * page], at_once[i]) << "byte " << i * page << " in round " << round;
  }
  EXPECT_GT(cut_short, 0);
}

}  // namespace
}  // namespace troupe::transport
