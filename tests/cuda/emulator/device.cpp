#include "device.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

#include "checker.h"
#include "violations.h"

namespace cuda_on_cpu {
namespace {

constexpr std::chrono::milliseconds pause{1};  // after which a lazy device goes on

// What the device's thread does on behalf of a host function.
thread_local const Operation* host_function = nullptr;

template <class Number>
void read_variable(const char* name, Number& number) {
  if (const char* text = std::getenv(name))
    number = static_cast<Number>(std::strtoull(text, nullptr, 10));
}

EmulationOptions options_of_environment() {
  EmulationOptions options;
  read_variable("CUDA_ON_CPU_SEED", options.seed);
  read_variable("CUDA_ON_CPU_PLACES", options.checked_places);
  options.checked_places = std::max<std::uintptr_t>(options.checked_places, 1);
  read_variable("CUDA_ON_CPU_DEVICE_BYTES", options.device_bytes);
  read_variable("CUDA_ON_CPU_DEVICES", options.devices);
  read_variable("CUDA_ON_CPU_DRIVER", options.driver);
  read_variable("CUDA_ON_CPU_ARCHITECTURE", options.architecture);
  read_variable("CUDA_ON_CPU_FAILURE", options.failure);
  return options;
}

template <class Handle>
Handle make_handle(std::uintptr_t& last) {
  return reinterpret_cast<Handle>(++last);
}

void print_summary() {
  const Counts left = counts();
  std::fprintf(stderr,
               "cuda_on_cpu: %llu operations, %d errors; left are %d streams, %d events, %d blocks "
               "of device memory (at most %zu bytes), %d pinned blocks\n",
               static_cast<unsigned long long>(left.operations), errors(), left.streams,
               left.events, left.device_blocks, left.peak_device_bytes, left.pinned_blocks);
}

}  // namespace

// Never destroyed: threads of the code under test may call it until the process has ended.
Device& Device::get() {
  static auto* device = [] {
    auto* made = new Device;
    std::thread([made] { made->work(); }).detach();
    std::atexit(print_summary);
    return made;
  }();
  return *device;
}

Device::Device() : options_(options_of_environment()), random_(options_.seed) {
  checked_places_ = options_.checked_places;
  host_.tick(host_stream);
  Memory::get().set_limits(options_.device_bytes, options_.pinned_bytes);
  read_variable("CUDA_ON_CPU_FAIL_AFTER", fails_at_);
}

// --- what the host calls -------------------------------------------------------------------------

cudaError_t Device::refuse() {
  if (options_.driver != 0 && options_.driver < CUDART_VERSION / 1000 * 1000)
    return cudaErrorInsufficientDriver;
  if (options_.devices == 0) return cudaErrorNoDevice;
  if (!host_function) return failed_ ? failure() : cudaSuccess;
  report("a host function calls CUDA");
  return cudaErrorNotPermitted;
}

cudaError_t Device::status() {
  const std::lock_guard lock(mutex_);
  return refuse();
}

Queue* Device::find(cudaStream_t stream, cudaError_t& error) {
  error = refuse();
  if (error != cudaSuccess) return nullptr;
  if (const auto found = streams_.find(stream); found != streams_.end()) return found->second.get();
  report(stream ? "a stream is used that was destroyed, or never made" : "the null stream is used");
  error = cudaErrorInvalidResourceHandle;
  return nullptr;
}

// CUDA makes nodes of these. Troupe's graphs have none.
cudaError_t Device::refuse_capture(Queue& queue, const char* what) {
  report(std::string(what) + " while work is captured");
  queue.capture_fails = true;
  return cudaErrorStreamCaptureUnsupported;
}

std::shared_ptr<Recording>* Device::find(cudaEvent_t event, cudaError_t& error) {
  error = refuse();
  if (error != cudaSuccess) return nullptr;
  if (const auto found = events_.find(event); found != events_.end()) return &found->second;
  report("an event is used that was destroyed, or never made");
  error = cudaErrorInvalidResourceHandle;
  return nullptr;
}

// The number of a stream whose end the host has seen may be used again: what has it in its clock
// as a later one's, comes after the earlier one's work too.
std::uint16_t Device::free_number() const {
  std::uint16_t number = host_stream + 1;
  while (std::ranges::any_of(queues_, [&](const auto& one) { return one->number == number; }))
    ++number;
  return number;
}

cudaError_t Device::create_stream(cudaStream_t* stream) {
  const std::lock_guard lock(mutex_);
  if (const cudaError_t error = refuse(); error != cudaSuccess) return error;
  std::erase_if(queues_, [&](const auto& one) {
    return one->closed && one->idle() && host_.covers(one->number, one->clock.of(one->number));
  });
  auto queue = std::make_shared<Queue>();
  queue->number = free_number();
  queues_.push_back(queue);
  *stream = make_handle<cudaStream_t>(last_handle_);
  streams_.emplace(*stream, queue);
  return cudaSuccess;
}

cudaError_t Device::destroy_stream(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  // What is failed can still be destroyed, though the call answers the error.
  if (const auto found = streams_.find(stream); failed_ && found != streams_.end()) {
    found->second->closed = true;
    streams_.erase(found);
    return failure();
  }
  Queue* queue = find(stream, error);
  if (!queue) return error;
  queue->closed = true;
  streams_.erase(stream);
  return cudaSuccess;
}

cudaError_t Device::create_event(cudaEvent_t* event, bool timed) {
  const std::lock_guard lock(mutex_);
  if (const cudaError_t error = refuse(); error != cudaSuccess) return error;
  if (options_.refuses_events) return cudaErrorMemoryAllocation;
  *event = make_handle<cudaEvent_t>(last_handle_);
  events_.emplace(*event, std::make_shared<Recording>(Recording{.timed = timed}));
  return cudaSuccess;
}

cudaError_t Device::destroy_event(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  if (failed_ && events_.erase(event) == 1) return failure();
  cudaError_t error = cudaSuccess;
  if (find(event, error)) events_.erase(event);
  return error;
}

// The host's own count goes up, since what it accesses from now on is not before the task.
void Device::push(Queue& queue, Task task) {
  queue.clock.join(host_);
  if (left_out_ && left_out_->queue == &queue && !task.awaits) {
    left_out_was_needless_ = queue.clock.covers(left_out_->clock);
    left_out_.reset();
  }
  host_.tick(host_stream);
  task.operation.stream = queue.number;
  task.operation.number = queue.clock.tick(queue.number);
  task.operation.before = queue.clock;
  queue.tasks.push_back(std::move(task));
  quiet_ = false;
  changed_.notify_all();
}

cudaError_t Device::give(cudaStream_t stream, Task task) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  if (task.is_host_function) ++host_functions_;
  if (Queue* queue = find(stream, error)) {
    if (!task.is_host_function) queue->works = true;
    if (queue->captured)
      queue->captured->push_back(std::move(task));
    else
      push(*queue, std::move(task));
  }
  return error;
}

cudaError_t Device::begin_capture(cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  Queue* queue = find(stream, error);
  if (!queue) return error;
  if (queue->captured) return cudaErrorIllegalState;
  queue->captured = std::make_shared<std::vector<Task>>();
  return cudaSuccess;
}

cudaError_t Device::end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  Queue* queue = find(stream, error);
  if (!queue) return error;
  if (!queue->captured) return cudaErrorIllegalState;
  if (std::exchange(queue->capture_fails, false)) {
    queue->captured = nullptr;
    return cudaErrorStreamCaptureInvalidated;
  }
  *graph = make_handle<cudaGraph_t>(last_handle_);
  graphs_.emplace(reinterpret_cast<std::uintptr_t>(*graph),
                  std::exchange(queue->captured, nullptr));
  return cudaSuccess;
}

cudaError_t Device::instantiate(cudaGraphExec_t* executable, cudaGraph_t graph) {
  const std::lock_guard lock(mutex_);
  if (const cudaError_t error = refuse(); error != cudaSuccess) return error;
  if (options_.refuses_graphs) return cudaErrorMemoryAllocation;
  const auto found = graphs_.find(reinterpret_cast<std::uintptr_t>(graph));
  if (found == graphs_.end()) return cudaErrorInvalidValue;
  const auto tasks = found->second;
  *executable = make_handle<cudaGraphExec_t>(last_handle_);
  graphs_.emplace(reinterpret_cast<std::uintptr_t>(*executable), tasks);
  return cudaSuccess;
}

cudaError_t Device::launch(cudaGraphExec_t executable, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  Queue* queue = find(stream, error);
  if (!queue) return error;
  const auto found = graphs_.find(reinterpret_cast<std::uintptr_t>(executable));
  if (found == graphs_.end()) {
    report("a graph is launched that was destroyed, or never made");
    return cudaErrorInvalidValue;
  }
  ++launched_graphs_;
  for (const Task& task : *found->second) push(*queue, task);
  return cudaSuccess;
}

cudaError_t Device::destroy(std::uintptr_t graph) {
  const std::lock_guard lock(mutex_);
  const bool known = graphs_.erase(graph) == 1;
  if (failed_) return failure();
  if (known) return cudaSuccess;
  report("a graph is destroyed that was destroyed before, or never made");
  return cudaErrorInvalidValue;
}

cudaError_t Device::record(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  Queue* queue = find(stream, error);
  if (!queue) return error;
  std::shared_ptr<Recording>* last = find(event, error);
  if (!last) return error;
  if (queue->captured) return refuse_capture(*queue, "an event is recorded");
  ++recordings_;
  auto recording = std::make_shared<Recording>();
  recording->passed = false;
  recording->timed = (*last)->timed;
  push(*queue, {.run = [this, recording](const Operation&) {
    const std::lock_guard running(mutex_);
    recording->passed = true;
    if (recording->timed) recording->time = std::chrono::steady_clock::now();
  }});
  recording->clock = queue->clock;
  *last = recording;
  return cudaSuccess;
}

cudaError_t Device::wait_on_device(cudaStream_t stream, cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  Queue* queue = find(stream, error);
  if (!queue) return error;
  const std::shared_ptr<Recording>* recording = find(event, error);
  if (!recording) return error;
  if (queue->captured) return refuse_capture(*queue, "a stream waits for an event");
  ++stream_waits_;
  VectorClock before = queue->clock;
  before.join(host_);
  if (queue->works && !before.covers((*recording)->clock) && ++ordering_waits_ == left_out_at_) {
    left_out_ = {.queue = queue, .clock = (*recording)->clock};
    return cudaSuccess;
  }
  queue->clock.join((*recording)->clock);
  push(*queue, {.run = [](const Operation&) {}, .awaits = *recording});
  return cudaSuccess;
}

cudaError_t Device::query(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  const std::shared_ptr<Recording>* recording = find(event, error);
  if (!recording) return error;
  if (!(*recording)->passed) return cudaErrorNotReady;
  host_.join((*recording)->clock);
  return cudaSuccess;
}

cudaError_t Device::elapsed(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  const std::lock_guard lock(mutex_);
  cudaError_t error = cudaSuccess;
  const std::shared_ptr<Recording>* first = find(from, error);
  const std::shared_ptr<Recording>* last = first ? find(to, error) : nullptr;
  if (!last) return error;
  const bool recorded =
      ((*first)->time || !(*first)->passed) && ((*last)->time || !(*last)->passed);
  if (!(*first)->timed || !(*last)->timed || !recorded) return cudaErrorInvalidResourceHandle;
  if (!(*first)->passed || !(*last)->passed) return cudaErrorNotReady;
  *milliseconds =
      std::chrono::duration<float, std::milli>(*(*last)->time - *(*first)->time).count();
  return cudaSuccess;
}

cudaError_t Device::wait_until(Lock& lock, const std::function<bool()>& done) {
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return failed_ || done(); });
  --waiting_;
  return failed_ ? failure() : cudaSuccess;
}

cudaError_t Device::wait(cudaEvent_t event) {
  Lock lock(mutex_);
  cudaError_t error = cudaSuccess;
  const std::shared_ptr<Recording>* found = find(event, error);
  if (!found) return error;
  const std::shared_ptr<Recording> recording = *found;
  error = wait_until(lock, [&] { return recording->passed; });
  if (error == cudaSuccess) host_.join(recording->clock);
  return error;
}

cudaError_t Device::wait(cudaStream_t stream) {
  Lock lock(mutex_);
  cudaError_t error = cudaSuccess;
  if (!find(stream, error)) return error;
  const std::shared_ptr<Queue> queue = streams_.at(stream);
  if (queue->captured) return refuse_capture(*queue, "a stream is waited for");
  const VectorClock clock = queue->clock;  // not of what other threads give meanwhile
  error = wait_until(lock, [&] { return queue->idle(); });
  if (error == cudaSuccess) host_.join(clock);
  return error;
}

bool Device::all_idle() const {
  return std::ranges::all_of(queues_, [](const auto& one) { return one->idle(); });
}

cudaError_t Device::wait_for_all() {
  Lock lock(mutex_);
  if (const cudaError_t error = refuse(); error != cudaSuccess) return error;
  for (const auto& queue : queues_)
    if (queue->captured) return refuse_capture(*queue, "the device is waited for");
  VectorClock clock;
  for (const auto& queue : queues_) clock.join(queue->clock);
  const cudaError_t error = wait_until(lock, [&] { return all_idle(); });
  if (error == cudaSuccess) host_.join(clock);
  return error;
}

cudaError_t Device::allocate(void** block, std::size_t bytes, Place place) {
  if (const cudaError_t error = status(); error != cudaSuccess) return error;
  std::byte* memory = Memory::get().allocate(bytes, place);
  if (!memory) return cudaErrorMemoryAllocation;
  *block = memory;
  return cudaSuccess;
}

// The device waits, but the host's knowledge counts: there, waiting is a side effect that other
// ways to free memory lack.
cudaError_t Device::free(void* block, Place place) {
  if (!block) return cudaSuccess;
  const Operation operation = host_operation();
  {
    Lock lock(mutex_);
    if (const cudaError_t error = refuse(); error != cudaSuccess) return error;
    for (const auto& queue : queues_)
      if (queue->captured) return refuse_capture(*queue, "memory is freed");
    if (const cudaError_t error = wait_until(lock, [&] { return all_idle(); });
        error != cudaSuccess)
      return error;
  }
  Memory& memory = Memory::get();
  const std::lock_guard lock(memory.mutex());
  Region* region = memory.contains(block) ? memory.find(block) : nullptr;
  if (!region || region->begin != block || region->place != place || !region->shadow) {
    report("memory is freed that was freed before, or never allocated");
    return cudaErrorInvalidValue;
  }
  Checker(operation).free(*region);
  memory.release(*region);
  return cudaSuccess;
}

Operation Device::host_operation() {
  if (host_function) return *host_function;
  const std::lock_guard lock(mutex_);
  return {.stream = host_stream, .number = host_.of(host_stream), .before = host_};
}

// --- the device's thread -------------------------------------------------------------------------

std::vector<Queue*> Device::able() const {
  std::vector<Queue*> result;
  for (const auto& queue : queues_) {
    if (queue->busy || queue->tasks.empty()) continue;
    const auto& awaits = queue->tasks.front().awaits;
    if (!awaits || awaits->passed) result.push_back(queue.get());
  }
  return result;
}

bool Device::may_go_on() const {
  return options_.pace == Pace::thread || waiting_ > 0 || allowed_ > 0 ||
         (options_.pace == Pace::lazy && quiet_);
}

void Device::work() {
  Lock lock(mutex_);
  for (;;) {
    const bool has_work = !able().empty();
    if (has_work && may_go_on()) {
      do_next(lock);
    } else if (has_work && options_.pace == Pace::lazy) {
      quiet_ = true;
      if (changed_.wait_for(lock, pause) == std::cv_status::no_timeout) quiet_ = false;
    } else {
      changed_.wait(lock);
    }
  }
}

void Device::do_next(Lock& lock) {
  const std::vector<Queue*> queues = able();
  Queue* chosen = queues[options_.seed == 0 ? 0 : random_() % queues.size()];
  const auto kept = *std::ranges::find(queues_, chosen, [](const auto& q) { return q.get(); });
  Task task = std::move(kept->tasks.front());
  kept->tasks.pop_front();
  kept->busy = true;
  if (allowed_ > 0) --allowed_;
  ++done_;
  if (done_ == fails_at_)
    fail();
  else
    run(lock, task);
  kept->busy = false;
  changed_.notify_all();
}

EmulationOptions Device::options() {
  const std::lock_guard lock(mutex_);
  return options_;
}

std::uint64_t Device::draw_seed() {
  const std::lock_guard lock(mutex_);
  return options_.seed == 0 ? 0 : random_() | 1;
}

void Device::run(Lock& lock, Task& task) {
  if (task.is_host_function) host_.join(task.operation.before);  // it may tell other threads
  lock.unlock();
  if (task.is_host_function) host_function = &task.operation;
  task.run(task.operation);
  host_function = nullptr;
  task.run = nullptr;
  lock.lock();
}

void Device::fail() {
  failed_ = true;
  for (const auto& queue : queues_) queue->tasks.clear();
}

// --- what tests call -----------------------------------------------------------------------------

void Device::begin(const EmulationOptions& options) {
  (void)wait_for_all();
  Memory::get().set_limits(options.device_bytes, options.pinned_bytes);
  Memory::get().reset_peak();
  Memory::get().set_checked(options.computes);
  const std::lock_guard lock(mutex_);
  options_ = options;
  left_out_at_ = options.left_out_wait == 0 ? 0 : ordering_waits_ + options.left_out_wait;
  left_out_.reset();
  left_out_was_needless_ = false;
  checked_places_ = options.checked_places;
  computes_ = options.computes;
  random_.seed(options.seed);
  changed_.notify_all();
}

void Device::end() {
  (void)wait_for_all();
  Memory::get().set_limits(SIZE_MAX, SIZE_MAX);
  Memory::get().set_checked(true);
  const std::lock_guard lock(mutex_);
  options_ = options_of_environment();
  checked_places_ = options_.checked_places;
  computes_ = true;
  if (failed_)
    for (auto& [event, recording] : events_) recording->passed = true;
  failed_ = false;
  fails_at_ = 0;
  // Nothing is left to do: what comes now is in order with it.
  for (const auto& queue : queues_) host_.join(queue->clock);
  changed_.notify_all();
}

bool Device::advance() {
  Lock lock(mutex_);
  const auto none_busy = [&] {
    return std::ranges::none_of(queues_, [](const auto& queue) { return queue->busy; });
  };
  changed_.wait(lock, none_busy);  // else the caller could meet a task that is half done
  if (able().empty()) return false;
  const std::uint64_t target = done_ + 1;
  ++allowed_;
  changed_.notify_all();
  changed_.wait(lock, [&] { return failed_ || (done_ >= target && none_busy()); });
  return true;
}

void Device::fail_after(std::uint64_t operations) {
  const std::lock_guard lock(mutex_);
  fails_at_ = done_ + operations;
}

Counts Device::counts() {
  const MemoryCounts memory = Memory::get().counts();
  const std::lock_guard lock(mutex_);
  return {.streams = static_cast<int>(streams_.size()),
          .events = static_cast<int>(events_.size()),
          .graphs = static_cast<int>(graphs_.size()),
          .device_blocks = memory.device_blocks,
          .pinned_blocks = memory.pinned_blocks,
          .device_bytes = memory.device_bytes,
          .pinned_bytes = memory.pinned_bytes,
          .peak_device_bytes = memory.peak_device_bytes,
          .operations = done_,
          .recordings = recordings_,
          .stream_waits = stream_waits_,
          .host_functions = host_functions_,
          .ordering_waits = ordering_waits_,
          .left_out_was_needless = left_out_was_needless_,
          .launched_graphs = launched_graphs_};
}

Emulation::Emulation(const EmulationOptions& options) { Device::get().begin(options); }
Emulation::~Emulation() { Device::get().end(); }
bool Emulation::advance() { return Device::get().advance(); }
void Emulation::fail_after(std::uint64_t n) { Device::get().fail_after(n); }
Counts counts() { return Device::get().counts(); }

}  // namespace cuda_on_cpu
