#include "delayed_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>
#include <unordered_map>

#include "guarded_memory.h"
#include "kernel_calls.h"
#include "ops/backend.h"
#include "runtime/device/block_uses.h"
#include "runtime/device/device_stream.h"
#include "runtime/transport/wait.h"

namespace troupe::testing {
namespace {

extern const Backend delayed;
constexpr Device device{&delayed, 0};

/// By stream: how much of its work is known to be done before.
class VectorClock {
 public:
  void join(const VectorClock& other) {
    times_.resize(std::max(times_.size(), other.times_.size()));
    for (std::size_t i = 0; i < other.times_.size(); ++i)
      times_[i] = std::max(times_[i], other.times_[i]);
  }
  std::uint64_t tick(std::size_t stream) {
    times_.resize(std::max(times_.size(), stream + 1));
    return ++times_[stream];
  }
  bool covers(std::size_t stream, std::uint64_t time) const {
    return stream < times_.size() && times_[stream] >= time;
  }

 private:
  std::vector<std::uint64_t> times_;
};

struct Fence final : Work {
  std::size_t stream = 0;
  VectorClock clock;
};
using FencePtr = std::shared_ptr<Fence>;

/// One of the three.
struct Piece {
  FencePtr passes;
  FencePtr awaited;
  std::function<void()> copies = {};
  Awaits what = Awaits::results;  ///< of `awaited`
};

struct Queue {
  std::size_t number = 0;
  std::deque<Piece> pieces;
  VectorClock clock;  ///< what comes before work that is given now
  FencePtr last;      ///< null if work was given since
  std::vector<FencePtr> fences;
  std::optional<Error> error;
  bool busy = false;    ///< a thread is at its first piece
  bool closed = false;  ///< nothing is given any more
};

/// An access of a block of memory.
struct Access {
  std::size_t stream = 0;
  std::uint64_t time = 0;
  std::string_view kernel;
};
struct History {
  std::optional<Access> write;
  std::vector<Access> reads;  ///< since, the last of each stream
};

class Machine {
 public:
  std::shared_ptr<Queue> open() {
    const std::lock_guard lock(mutex_);
    auto queue = std::make_shared<Queue>();
    while (queues_.contains(queue->number)) ++queue->number;
    queues_.emplace(queue->number, queue);
    return queue;
  }
  void close(Queue& queue) {
    const std::lock_guard lock(mutex_);
    queue.closed = true;
  }

  FencePtr record(Queue& queue) {
    FencePtr fence;
    {
      const std::lock_guard lock(mutex_);
      if (queue.last) return queue.last;
      fence = std::make_shared<Fence>();
      queue.clock.join(host_);
      fence->stream = queue.number;
      fence->clock = queue.clock;
      queue.last = fence;
      queue.fences.push_back(fence);
      queue.pieces.push_back({.passes = fence, .awaited = nullptr});
    }
    do_at_once();
    return fence;
  }
  /// How many fences come before the one that covers the work given so far.
  std::uint64_t mark(const Queue& queue) {
    const std::lock_guard lock(mutex_);
    return queue.last ? queue.fences.size() - 1 : queue.fences.size();
  }
  FencePtr fence_after(Queue& queue, std::uint64_t mark) {
    {
      const std::lock_guard lock(mutex_);
      if (mark < queue.fences.size()) return queue.fences[mark];
    }
    return record(queue);
  }
  void wait(Queue& queue, const FencePtr& fence, Awaits what) {
    {
      const std::lock_guard lock(mutex_);
      if (fence->stream == queue.number) return;
      queue.clock.join(fence->clock);
      give(queue, {.passes = nullptr, .awaited = fence, .what = what});
    }
    do_at_once();
  }
  void copy_later(Queue& queue, std::function<void()> copies) {
    {
      const std::lock_guard lock(mutex_);
      give(queue, {.passes = nullptr, .awaited = nullptr, .copies = std::move(copies)});
    }
    do_at_once();
  }
  void synchronize(Queue& queue) {
    const FencePtr fence = record(queue);
    if (pace() == Pace::thread) (void)wait_for(fence);
    while (!fence->done())
      if (!advance()) throw std::logic_error("a stream waits for what was never given");
    fence->status().value();
  }

  /// A kernel begins on the stream.
  std::uint64_t begin(Queue& queue) {
    const std::lock_guard lock(mutex_);
    queue.clock.join(host_);
    queue.last = nullptr;
    return queue.clock.tick(queue.number);
  }
  void access(const Queue& queue, const void* block, bool writes, const Access& now,
              const std::string& what) {
    const std::lock_guard lock(mutex_);
    History& history = blocks_[block];
    const auto check = [&](const Access& before, std::string_view did) {
      if (before.stream == queue.number || queue.clock.covers(before.stream, before.time)) return;
      violations_.push_back(fmt::format(
          "{}: {} on stream {} is {}, without waiting, what {} {} on stream {}", now.kernel, what,
          now.stream, writes ? "written" : "read", before.kernel, did, before.stream));
    };
    if (history.write) check(*history.write, "writes");
    if (writes)
      for (const Access& read : history.reads) check(read, "reads");
    if (writes) {
      history = {now, {}};
      return;
    }
    std::erase_if(history.reads, [&](const Access& read) { return read.stream == now.stream; });
    history.reads.push_back(now);
  }
  void violate(std::string text) {
    const std::lock_guard lock(mutex_);
    violations_.push_back(std::move(text));
  }

  /// Does the first piece of a stream that has one to do.
  bool advance() {
    Piece piece;
    std::shared_ptr<Queue> queue;
    std::optional<Error> error;
    {
      const std::lock_guard lock(mutex_);
      queue = pick();
      if (!queue) return false;
      piece = std::move(queue->pieces.front());
      queue->pieces.pop_front();
      queue->busy = true;
      if (piece.awaited && piece.what == Awaits::results && !queue->error)
        if (const Status ended = piece.awaited->status(); !ended) queue->error = ended.error();
      if (piece.passes) pass(*queue, *piece.passes);
      error = queue->error;
    }
    if (piece.copies) piece.copies();
    if (piece.passes) piece.passes->finish(error ? Status(*error) : success());
    piece = {};  // may free tensors
    const std::lock_guard lock(mutex_);
    queue->busy = false;
    return true;
  }

  void begin_delays(std::uint64_t seed, Pace pace) {
    const std::lock_guard lock(mutex_);
    random_.seed(seed);
    pace_ = pace;
    fails_at_ = 0;
    passed_ = 0;
    violations_.clear();
    if (pace != Pace::thread) return;
    thread_ = std::jthread([this, seed](const std::stop_token& stop) {
      std::mt19937_64 random(seed);
      while (!stop.stop_requested())
        if (!advance() || random() % 16 == 0)
          std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
    });
  }
  void end_delays() {
    thread_ = {};
    while (advance()) {
    }
    const std::lock_guard lock(mutex_);
    pace_.reset();
    // All is done: what comes now is in order with it, and numbers can be given again.
    blocks_.clear();
    host_ = {};
    std::erase_if(queues_, [](const auto& one) { return one.second->closed; });
    for (const auto& [number, queue] : queues_) queue->clock = {};
  }
  std::optional<Pace> pace() {
    const std::lock_guard lock(mutex_);
    return pace_;
  }
  void fail_at_fence(std::uint64_t n) {
    const std::lock_guard lock(mutex_);
    fails_at_ = passed_ + n;
  }
  std::uint64_t passed() {
    const std::lock_guard lock(mutex_);
    return passed_;
  }
  void report(std::string violation) {
    const std::lock_guard lock(mutex_);
    violations_.push_back(std::move(violation));
  }
  std::vector<std::string> violations() {
    const std::lock_guard lock(mutex_);
    return violations_;
  }

 private:
  static void give(Queue& queue, Piece piece) {
    queue.last = nullptr;
    queue.pieces.push_back(std::move(piece));
  }
  static bool can_go_on(const Queue& queue) {
    if (queue.busy || queue.pieces.empty()) return false;
    const FencePtr& awaited = queue.pieces.front().awaited;
    return !awaited || awaited->done();
  }
  std::shared_ptr<Queue> pick() {
    std::vector<std::shared_ptr<Queue>> able;
    for (const auto& [number, queue] : queues_)
      if (can_go_on(*queue)) able.push_back(queue);
    return able.empty() ? nullptr : able[random_() % able.size()];
  }
  void pass(Queue& queue, const Fence& fence) {
    if (++passed_ == fails_at_)
      queue.error = Error(ErrorCode::actor_failed,
                          fmt::format("the work of stream {} has failed", queue.number));
    host_.join(fence.clock);  // whatever the host does once it sees the end comes after
  }
  void do_at_once() {
    if (!pace())
      while (advance()) {
      }
  }

  std::mutex mutex_;
  std::map<std::size_t, std::shared_ptr<Queue>> queues_;
  std::unordered_map<const void*, History> blocks_;
  VectorClock host_;
  std::mt19937_64 random_;
  std::optional<Pace> pace_;
  std::uint64_t passed_ = 0, fails_at_ = 0;
  std::vector<std::string> violations_;
  std::jthread thread_;
};

// Never destroyed: tensors in other statics may outlive any order of destruction.
Machine& machine() {
  static auto* machine = new Machine;
  return *machine;
}

std::atomic<bool> failures_last = false;

class OpenStream final : public DeviceStream {
 public:
  OpenStream() : DeviceStream({&delayed, 0}) {}
  ~OpenStream() override { machine().close(*queue); }
  bool errors_end_run() const override { return errors_end_run_; }
  WorkPtr fence() override { return machine().record(*queue); }
  std::uint64_t mark() override { return machine().mark(*queue); }
  WorkPtr fence_after(std::uint64_t mark) override {
    const FencePtr fence = machine().fence_after(*queue, mark);
    return fence->done() ? nullptr : fence;
  }
  void wait(const WorkPtr& fence, Awaits what) override {
    machine().wait(*queue, std::dynamic_pointer_cast<Fence>(fence), what);
  }
  void begin_range(const std::string& actor) override { actor_ = actor; }
  void synchronize() override {
    if (!actor_.empty()) machine().report(fmt::format("{} waits for its stream", actor_));
    machine().synchronize(*queue);
  }

  const std::shared_ptr<Queue> queue = machine().open();

 private:
  const bool errors_end_run_ = failures_last;
  std::string actor_;  ///< the one that uses the stream; empty: none
};

class Call {
 public:
  explicit Call(std::string_view kernel) : kernel_(kernel) {}

  void on(int argument, const Stream& stream) {
    check(argument, stream.device);
    if (!device_stream(stream))
      throw std::runtime_error(fmt::format("{}: its stream was not opened", kernel_));
    stream_ = &stream;
    queue_ = dynamic_cast<OpenStream&>(*device_stream(stream)).queue.get();
  }
  void reads(int argument, const Tensor& tensor) { add(argument, tensor, false); }
  void writes(int argument, const Tensor& tensor) { add(argument, tensor, true); }
  void begin() {
    if (!queue_) return;  // it makes a layer
    for (const Argument& one : arguments_) note_use(*stream_, one.tensor);
    time_ = machine().begin(*queue_);
    for (const Argument& one : arguments_)
      access(one.tensor, one.writes, fmt::format("argument {}", one.place));
    memory_.emplace();
  }
  void makes(const Tensor& result) {
    if (result.device() != device)
      throw std::runtime_error(fmt::format("{} has made a tensor on another device", kernel_));
    note_use(*stream_, result);
    time_ = machine().begin(*queue_);
    access(result, true, "the result");
  }
  static void copy(DType table, const Stream& stream, const Tensor& from, Tensor& to) {
    Call call("copy");
    call.on(1, stream);
    const bool comes = from.device() == Device::cpu(), goes = to.device() == Device::cpu();
    if (!comes || goes) call.reads(2, from);
    if (!goes) call.writes(3, to);
    call.begin();
    if (goes) return call.copy_to_cpu(table, stream, from, to);
    kernels(Device::cpu(), table).copy(stream, from, to);
    if (comes) call.read_again(from);
  }

 private:
  struct Argument {
    int place;
    Tensor tensor;
    bool writes;
  };

  void check(int argument, Device found) const {
    if (found != device)
      throw std::runtime_error(fmt::format("{}: argument {} is on {}, not on the delayed device",
                                           kernel_, argument, to_string(found)));
  }
  void add(int argument, const Tensor& tensor, bool writes) {
    check(argument, tensor.device());
    arguments_.push_back({argument, tensor, writes});
  }
  void access(const Tensor& tensor, bool writes, const std::string& what) const {
    machine().access(*queue_, tensor.storage()->data(), writes, {queue_->number, time_, kernel_},
                     what);
  }
  void copy_to_cpu(DType table, const Stream& stream, const Tensor& from, const Tensor& to) const {
    Tensor values = Tensor::empty(to.shape(), to.dtype(), Device::cpu(), to.layout());
    kernels(Device::cpu(), table).copy(stream, from, values);
    std::memset(to.raw(), 0xff, to.bytes());  // NaN
    machine().copy_later(*queue_,
                         [values, to] { std::memcpy(to.raw(), values.raw(), to.bytes()); });
  }
  void read_again(const Tensor& from) const {
    std::vector<std::byte> bytes(from.raw(), from.raw() + from.bytes());
    machine().copy_later(*queue_, [from, bytes = std::move(bytes), stream = queue_->number] {
      if (!std::equal(bytes.begin(), bytes.end(), from.raw()))
        machine().violate(
            fmt::format("copy: the host has changed what stream {} had still to copy", stream));
    });
  }

  std::string_view kernel_;
  const Stream* stream_ = nullptr;
  Queue* queue_ = nullptr;
  std::uint64_t time_ = 0;
  std::vector<Argument> arguments_;
  std::optional<OpenedMemory> memory_;
};

CachingAllocator& allocator(std::int16_t) {
  static auto* allocator = new CachingAllocator(
      device, {.allocate = allocate_guarded, .release = [](void*, std::size_t) {}});
  return *allocator;
}

constexpr Backend delayed{
    .name = "delayed",
    .in_cpu_memory = true,
    .allocator = allocator,
    .kernels = KernelCalls<Call>::of,
    .multiplies = [](DType type) { return backend(Device::cpu()).multiplies(type); },
    .take_scratch = [](std::int16_t) { return backend(Device::cpu()).take_scratch(0); },
    .fingerprint = [] { return backend(Device::cpu()).fingerprint(); },
    .open_stream = [](std::int16_t) -> std::shared_ptr<DeviceStream> {
      return std::make_shared<OpenStream>();
    },
    .block_uses = [](std::int16_t) -> BlockUses& {
      static auto* uses = new BlockUses;
      return *uses;
    }};

}  // namespace

Device delayed_device() {
  watch_guarded_memory();
  return device;
}

DelayedWork::DelayedWork(std::uint64_t seed, Pace pace) : seed_(seed) {
  machine().begin_delays(seed, pace);
}
DelayedWork::~DelayedWork() {
  machine().end_delays();
  failures_last = false;
}
void DelayedWork::let_failures_last() { failures_last = true; }
bool DelayedWork::advance() { return machine().advance(); }
void DelayedWork::fail_at_fence(std::uint64_t n) { machine().fail_at_fence(n); }
std::uint64_t DelayedWork::passed() { return machine().passed(); }
std::vector<std::string> DelayedWork::violations() { return machine().violations(); }

// Every third seed is as lazy as can be.
std::function<bool(bool)> DelayedWork::outside() const {
  return [every = seed_ % 3 == 0 ? 0 : 1 + seed_ % 7, random = std::mt19937_64(seed_)](
             bool idle) mutable { return (idle || (every && random() % every == 0)) && advance(); };
}

}  // namespace troupe::testing
