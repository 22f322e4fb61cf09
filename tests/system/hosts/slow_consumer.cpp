// A fast and a slow process, each on its host: process 0 sends tensors as fast as its edge lets it,
// process 1 takes its time for each. Process 0 prints, in KiB and messages:
//
//   resident N buffers N bound N mailbox N of N
//
// how much its resident memory and its tensors grew at most, the edge's slots times their bytes,
// and the fullest mailbox with its bound.
//
//   slow_consumer SLOTS KIB COUNT MILLISECONDS    under a launcher, two processes

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/flow/run.h"
#include "runtime/remote/joined_world.h"
#include "runtime/tensor/allocator.h"
#include "tests/unit/runtime/own_memory.h"

namespace {

using namespace troupe;
using std::chrono::milliseconds;

struct Load {
  Tensor tensor;
  static void members(auto& self, auto& visit) { visit(self.tensor); }
};

class Producer final : public Actor {
 public:
  Producer(std::uint32_t count, std::int64_t kib) : count_(count), kib_(kib) {}
  Output<Load> out{this, "out"};

  bool ready() const override { return next_ < count_ && out.has_slot(); }
  ActionLabel act() override {
    const MessageKey key{0, Purpose::train, next_++};
    const Tensor tensor = Tensor::empty({kib_ * 256}, DType::f32, Device::cpu());
    std::memset(tensor.raw(), 1, tensor.bytes());
    out.send({.key = key}, Load{tensor});
    return {"send", key};
  }

 private:
  const std::uint32_t count_;
  const std::int64_t kib_;
  std::uint32_t next_ = 0;
};

class Consumer final : public Actor {
 public:
  Consumer(std::uint32_t count, milliseconds pause) : left_(count), pause_(pause) {}
  Input<Load> in{this, "in"};

  ActionLabel act() override {
    const auto held = in.take();
    std::this_thread::sleep_for(pause_);  // in place of slow arithmetic
    in.release(held);
    if (--left_ == 0) finish();
    return {"take", held.header.key};
  }
  bool outlives_steps() const override { return true; }

 private:
  std::uint32_t left_;
  const milliseconds pause_;
};

int play(std::uint32_t slots, std::int64_t kib, std::uint32_t count, milliseconds pause) {
  const auto world = JoinedWorld::join();
  if (!world || world->processes() != 2)
    throw Error(ErrorCode::bad_options, "two processes are wanted");

  Graph graph;
  const auto producer = graph.add<Producer>("producer", count, kib);
  const auto consumer = graph.add<Consumer>("consumer", count, pause);
  graph.connect(producer, &Producer::out, consumer, &Consumer::in, {.slots = slots});
  graph.place(consumer, 1);

  RunOptions options;
  world->connect(graph, options);
  const CachingAllocator& allocator = CachingAllocator::of({});
  const std::size_t buffers = allocator.counters().peak_bytes;
  const long resident = test::own_memory("VmRSS");
  const RunReport report = run(graph, options);
  if (world->leads()) {
    const auto fullest = std::ranges::max_element(report.actors, {}, &ActorReport::peak_mailbox);
    fmt::print("resident {} buffers {} bound {} mailbox {} of {}\n",
               test::own_memory("VmHWM") - resident,
               (allocator.counters().peak_bytes - buffers) >> 10, slots * kib,
               fullest->peak_mailbox, fullest->mailbox_bound);
  }
  world->leave();
  return 0;
}

}  // namespace

int main(int count, char** words) {
  if (count != 5) {
    fmt::print(stderr, "slow_consumer SLOTS KIB COUNT MILLISECONDS\n");
    return 2;
  }
  try {
    return play(static_cast<std::uint32_t>(std::stoul(words[1])), std::stol(words[2]),
                static_cast<std::uint32_t>(std::stoul(words[3])),
                milliseconds(std::stol(words[4])));
  } catch (const std::exception& error) {
    fmt::print(stderr, "slow_consumer: {}\n", error.what());
    return 1;
  }
}
