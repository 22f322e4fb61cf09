// A run of four actors in which one allocation by `new` fails: the COUNT-th one since the first
// actor of the process began, and with `and-later` also each one after it. Prints the number of
// allocations since then. Exit code 0: the run is done. 1: it threw an error. 4: std::terminate
// ended the process. 5: a number arrived with the tensor of another one.
//
//   failing_allocation COUNT one|and-later
//   failing_allocation COUNT one|and-later RANK TRANSPORT
//
// The second form, started in two processes: the sender is in process 0, the others in process 1,
// and an allocation of an actor's thread fails in process RANK.

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string>

#include "runtime/flow/run.h"
#include "runtime/remote/joined_world.h"

namespace {

std::atomic<long> allocations = 0;
long first_to_fail = 0;
long last_to_fail = 0;
bool fails_here = true;
/// Allocations count on a thread from its first action on, so that a failure meets what an action
/// sends. Without several processes, on all threads.
thread_local bool acts_here = false;
bool counts_all = true;
std::atomic<bool> is_counted = false;

void* allocate(std::size_t bytes) {
  if (is_counted && fails_here && (counts_all || acts_here)) {
    const long number = ++allocations;
    if (number >= first_to_fail && number <= last_to_fail) throw std::bad_alloc();
  }
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace troupe;

struct Number {
  std::uint32_t value = 0;
  Tensor tensor;  ///< the value again
  static void members(auto& self, auto& visit) {
    visit(self.value);
    visit(self.tensor);
  }
};

Number number(std::uint32_t value) {
  Tensor tensor = Tensor::empty({1}, DType::i32, Device::cpu());
  std::memcpy(tensor.raw(), &value, sizeof value);
  return {value, std::move(tensor)};
}

constexpr std::uint32_t steps = 4;

/// Sends a number to the next actor in each step, and begins the next step once it is committed.
class Sender final : public Actor {
 public:
  Output<Number> out{this, "out"};

  bool ready() const override { return next_ == committed_ && next_ < steps && out.has_slot(); }
  ActionLabel act() override {
    const MessageKey key{next_++, Purpose::train, 0};
    out.send({.key = key}, number(key.step));
    vote(key.step, nullptr);
    acts_here = true;
    return {"send", key};
  }
  bool votes() const override { return true; }
  void on_commit(const Commit& commit) override { committed_ = commit.step + 1; }
  void restore(const CommittedState&, std::uint32_t done) override {
    next_ = committed_ = done;
    is_counted = true;  // the run has begun
  }

 private:
  std::uint32_t next_ = 0, committed_ = 0;
};

class Relay final : public Actor {
 public:
  Input<Number> in{this, "in"};
  Output<Number> out{this, "out"};

  ActionLabel act() override {
    const auto held = in.take();
    out.send({.key = held.header.key}, *held);
    in.release(held);
    acts_here = true;
    return {"relay", held.header.key};
  }
};

/// Keeps a number until its step is committed, so that a replacement receives it again.
class Receiver final : public Actor {
 public:
  Input<Number> in{this, "in"};

  bool ready() const override { return in.ready() && !held_; }
  ActionLabel act() override {
    held_ = in.take();
    if (std::memcmp((*held_)->tensor.raw(), &(*held_)->value, sizeof(std::uint32_t)) != 0)
      std::_Exit(5);
    const MessageKey key = held_->header.key;
    if (key.step < committed_) {
      release();
    } else {
      vote(key.step, nullptr);
    }
    return {"receive", key};
  }
  bool votes() const override { return true; }
  void on_commit(const Commit& commit) override {
    committed_ = std::max(committed_, commit.step + 1);
    if (held_ && held_->header.key.step < committed_) release();
  }
  void restore(const CommittedState&, std::uint32_t done) override {
    committed_ = done;
    is_counted = true;
  }

 private:
  void release() {
    emit((*held_)->value);
    in.release(*held_);
    held_.reset();
  }

  std::optional<Held<Number>> held_;
  std::uint32_t committed_ = 0;
};

/// In one process, or with a world in two.
int play(JoinedWorld* world) {
  Graph graph;
  const auto sender = graph.add<Sender>("sender");
  const auto first = graph.add<Relay>("relay/0");
  const auto second = graph.add<Relay>("relay/1");
  const auto receiver = graph.add<Receiver>("receiver");
  graph.connect(sender, &Sender::out, first, &Relay::in, {.slots = 2});
  graph.connect(first, &Relay::out, second, &Relay::in, {.slots = 2});
  graph.connect(second, &Relay::out, receiver, &Receiver::in, {.slots = 2});
  RunOptions options{.threads = 2, .steps = {.count = steps}, .on_event = [](const std::any&) {}};
  if (world) {
    graph.place(first, 1);
    graph.place(second, 1);
    graph.place(receiver, 1);
    world->connect(graph, options);
  }
  const RunReport report = run(graph, options);
  is_counted = false;
  if (world) world->leave();
  fmt::print("{} steps, {} allocations\n", report.steps, allocations.load());
  return report.steps == steps ? 0 : 3;
}

}  // namespace

int main(int count, char** words) {
  if (count != 3 && count != 5) return 2;
  first_to_fail = std::stol(words[1]);
  last_to_fail = std::string(words[2]) == "one" ? first_to_fail : 1'000'000'000;
  std::set_terminate([] { std::_Exit(4); });
  try {
    const auto world = count == 5 ? JoinedWorld::join({.transport = words[4]}) : nullptr;
    counts_all = !world;
    fails_here = !world || world->process() == std::stoul(words[3]);
    return play(world.get());
  } catch (const std::exception& error) {
    is_counted = false;
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
