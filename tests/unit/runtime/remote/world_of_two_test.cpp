// Two processes that join, connect, run a graph and leave, and what is left of it.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "runtime/flow/run.h"
#include "runtime/remote/joined_world.h"
#include "tests/unit/runtime/transport/processes.h"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using test::Processes;

struct Load {
  std::vector<Tensor> tensors;
  static void members(auto& self, auto& visit) { visit(self.tensors); }
};

constexpr std::uint32_t messages = 20;

/// The tensors of a message: a large and a small one, whose sizes are the same in every third.
std::vector<Tensor> tensors_of(std::uint32_t message) {
  std::vector<Tensor> tensors;
  for (const std::int64_t size : {1 << (12 + message % 3), 7}) {
    tensors.push_back(Tensor::zeros({size}));
    std::ranges::fill(tensors.back().elements<float>(), static_cast<float>(message + 1));
  }
  return tensors;
}

class Producer final : public Actor {
 public:
  Output<Load> out{this, "out"};
  bool ready() const override { return next_ < messages && out.has_slot(); }
  ActionLabel act() override {
    const MessageKey key{0, Purpose::train, next_++};
    out.send({.key = key}, Load{tensors_of(key.micro_batch)});
    return {"send", key};
  }

 private:
  std::uint32_t next_ = 0;
};

class Consumer final : public Actor {
 public:
  Input<Load> in{this, "in"};
  ActionLabel act() override {
    const auto held = in.take();
    const auto expected = tensors_of(held.header.key.micro_batch);
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (!std::ranges::equal(held->tensors.at(i).elements<float>(), expected[i].elements<float>()))
        throw Error(ErrorCode::bad_message, "a message has the elements of another one");
    in.release(held);
    if (++taken_ == messages) finish();
    return {"take", held.header.key};
  }
  bool outlives_steps() const override { return true; }

 private:
  std::uint32_t taken_ = 0;
};

/// From process 0 to process 1.
struct Line {
  Graph graph;
  Line() {
    const auto producer = graph.add<Producer>("producer");
    const auto consumer = graph.add<Consumer>("consumer");
    graph.connect(producer, &Producer::out, consumer, &Consumer::in, {.slots = 4});
    graph.place(consumer, 1);
  }
};

std::unique_ptr<JoinedWorld> join(int rank, const std::string& job_file,
                                  const std::string& transport) {
  const World world{.rank = rank,
                    .size = 2,
                    .local_rank = rank,
                    .local_size = 2,
                    .launcher = "test",
                    .run_id = "two"};
  return JoinedWorld::join(world, {{"TROUPE_JOB_FILE", job_file}},
                           {.transport = transport, .timeout = std::chrono::seconds(60)});
}

/// What this process has of the system.
struct Holdings {
  int threads = 0, memories = 0, sockets = 0;

  static Holdings now() {
    Holdings now;
    for ([[maybe_unused]] const auto& task : fs::directory_iterator("/proc/self/task"))
      ++now.threads;
    for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
      std::error_code gone;  // the folder's own
      const std::string target = fs::read_symlink(entry.path(), gone).string();
      now.memories += target.starts_with("/memfd:troupe") ? 1 : 0;
      now.sockets += target.starts_with("socket:") ? 1 : 0;
    }
    return now;
  }
  bool within(const Holdings& most) const {
    return threads <= most.threads && memories <= most.memories && sockets <= most.sockets;
  }
  std::string text() const {
    return fmt::format("{} threads, {} memories, {} sockets", threads, memories, sockets);
  }
};

class WorldOfTwo : public ::testing::TestWithParam<std::string> {
 protected:
  WorldOfTwo() {
    std::string folder = testing::TempDir() + "troupe_two_XXXXXX";
    if (!::mkdtemp(folder.data())) throw Error(ErrorCode::io, "no temporary folder");
    folder_ = folder;
  }
  ~WorldOfTwo() override { fs::remove_all(folder_); }

  std::string job_file(int round = 0) const { return folder_ + "/" + std::to_string(round); }
  static void expect_both_end_well(Processes& processes) {
    for (const int rank : {0, 1}) EXPECT_EQ(processes.wait(rank), 0) << "process " << rank;
  }

  std::string folder_;
};

/// 0, or 1 with what was left.
int leave_and_look(int rank, const std::string& job_file, const std::string& transport) {
  const auto world = join(rank, job_file, transport);
  Holdings most = Holdings::now();
  const Line line;
  RunOptions options;  // has the bridge to the end
  world->connect(line.graph, options);
  if (Holdings::now().within(most)) return 2;  // or there is nothing to be seen
  run(line.graph, options);
  world->leave();
  // Without shared memory the run's messages go by the control plane, which stays: a connection
  // from and one to the other.
  if (transport == "gloo") most.sockets += 2;
  // A thread that was waited for may be in the list a moment longer.
  const auto enough = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!Holdings::now().within(most) && std::chrono::steady_clock::now() < enough)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (Holdings::now().within(most)) return 0;
  std::fprintf(stderr, "%s before, %s after leave()\n", most.text().c_str(),
               Holdings::now().text().c_str());
  return 1;
}

TEST_P(WorldOfTwo, HasNothingLeftOfTheBulkPlaneOnceItWasLeft) {
  Processes processes(2, [this](int rank, Store&) {
    int code = 0;
    for (int round = 0; round < 4 && code == 0; ++round)
      code = leave_and_look(rank, job_file(round), GetParam());
    return code;
  });
  expect_both_end_well(processes);
}

TEST_P(WorldOfTwo, GivesEachMessageOfAnEdgeItsOwnTensors) {
  Processes processes(2, [this](int rank, Store&) {
    const auto world = join(rank, job_file(), GetParam());
    const Line line;
    RunOptions options;
    world->connect(line.graph, options);
    run(line.graph, options);  // throws what the consumer throws
    world->leave();
    return 0;
  });
  expect_both_end_well(processes);
}

TEST_P(WorldOfTwo, ConnectsOnce) {
  Processes processes(2, [this](int rank, Store&) {
    const auto world = join(rank, job_file(), GetParam());
    const Line line;
    RunOptions options, again;
    world->connect(line.graph, options);
    run(line.graph, options);
    int code = 1;
    try {
      world->connect(line.graph, again);
    } catch (const Error& error) {
      code = error.code() == ErrorCode::usage && !again.bridge ? 0 : 2;
    }
    world->leave();
    return code;
  });
  expect_both_end_well(processes);
}

TEST_P(WorldOfTwo, NamesTheActorThatIsPlacedBeyondIt) {
  Processes processes(2, [this](int rank, Store&) {
    const auto world = join(rank, job_file(), GetParam());
    Graph graph;
    graph.place(graph.add<Producer>("producer"), 7);
    RunOptions options;
    int code = 1;
    try {
      world->connect(graph, options);
    } catch (const Error& error) {
      const std::string_view expected = "actor producer is placed in process 7";
      code = error.message().starts_with(expected) ? 0 : 2;
    }
    world->leave();
    return code;
  });
  expect_both_end_well(processes);
}

INSTANTIATE_TEST_SUITE_P(Each, WorldOfTwo, ::testing::Values("shm", "gloo"),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace troupe
