#include "ops/cuda/host_steps.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/error.h"
#include "runtime/quiet_thread.h"

namespace troupe::cuda {

struct HostSteps::Queue {
  std::deque<std::shared_ptr<HostStep>>
      steps;  ///< with the thread's lock; the first may be at work
};

/// A host function must not call CUDA, so it only wakes this thread.
class HostThread {
 public:
  using QueuePtr = std::shared_ptr<HostSteps::Queue>;

  // Never destroyed, nor is its thread joined: CUDA may wake it until the process has ended. At
  // exit it stops, before CUDA does, which was started earlier: steps may be left after an error.
  static HostThread& get() {
    static auto* thread = new HostThread;
    return *thread;
  }

  void add(const QueuePtr& queue, std::shared_ptr<HostStep> step) {
    const std::lock_guard lock(mutex_);
    queue->steps.push_back(std::move(step));
    if (std::ranges::find(queues_, queue) != queues_.end()) return;
    queues_.push_back(queue);
    if (asleep_) changed_.notify_one();
  }
  bool has_steps(const QueuePtr& queue) {
    const std::lock_guard lock(mutex_);
    return !queue->steps.empty();
  }
  bool has_stopped() {
    const std::lock_guard lock(mutex_);
    return stopped_;
  }
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

 private:
  HostThread() {
    std::atexit([] { get().stop(); });
  }
  void stop() {
    std::unique_lock lock(mutex_);
    stopped_ = true;
    step_ended_.wait(lock, [this] { return !in_step_; });
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const bool woken =
          changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return woken_; });
      if (!woken && queues_.empty()) {
        asleep_ = true;
        changed_.wait(lock, [&] { return woken_ || !queues_.empty(); });
        asleep_ = false;
        continue;
      }
      woken_ = false;
      while (run_some(lock)) {  // a step may wait for one of another stream
      }
      std::erase_if(queues_, [](const QueuePtr& queue) { return queue->steps.empty(); });
    }
  }
  // One long step of each queue: the copies of one stream hold no fence of another up.
  bool run_some(std::unique_lock<std::mutex>& lock) {
    bool some = false;
    for (const QueuePtr& queue : std::vector(queues_))
      for (Ran ran = Ran::short_step; ran == Ran::short_step;) {
        ran = run_first(*queue, lock);
        if (ran != Ran::nothing) some = true;
      }
    return some;
  }
  enum class Ran : std::uint8_t { nothing, short_step, long_step };
  // CUDA is called without the lock, which its host functions need.
  Ran run_first(HostSteps::Queue& queue, std::unique_lock<std::mutex>& lock) {
    if (stopped_ || queue.steps.empty()) return Ran::nothing;
    std::shared_ptr<HostStep> first = queue.steps.front();
    in_step_ = true;
    lock.unlock();
    const bool done = first->try_run(), is_long = first->is_long();
    lock.lock();
    if (done) {
      queue.steps.pop_front();
      lock.unlock();
      first = nullptr;  // may free tensors
      lock.lock();
    }
    in_step_ = false;
    if (stopped_) step_ended_.notify_all();
    if (!done) return Ran::nothing;
    return is_long ? Ran::long_step : Ran::short_step;
  }

  std::mutex mutex_;
  std::condition_variable changed_, step_ended_;
  bool woken_ = false;
  bool stopped_ = false;
  bool in_step_ = false;          ///< a step runs, without the lock
  bool asleep_ = false;           ///< there has been nothing to do for a while
  std::vector<QueuePtr> queues_;  ///< those that have steps
  std::thread thread_ = quiet_thread([this] { work(); });
};

namespace {

struct Told final : HostStep {
  bool try_run() override {
    told.set_value();
    return true;
  }
  std::promise<void> told;
};

}  // namespace

HostSteps::HostSteps() : queue_(std::make_shared<Queue>()) {}

void HostSteps::add(std::shared_ptr<HostStep> step) {
  HostThread::get().add(queue_, std::move(step));
}

void HostSteps::wait() const {
  HostThread& thread = HostThread::get();
  if (!thread.has_steps(queue_)) return;
  const auto last = std::make_shared<Told>();
  std::future<void> told = last->told.get_future();
  thread.add(queue_, last);
  thread.wake();
  while (told.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready)
    if (thread.has_stopped())
      throw Error(ErrorCode::internal, "the process waits for a stream of a GPU while it exits",
                  "stop using the GPU before exit() is called");
}

cudaError_t HostSteps::wake_behind(cudaStream_t stream) {
  return cudaLaunchHostFunc(
      stream, [](void* thread) { static_cast<HostThread*>(thread)->wake(); }, &HostThread::get());
}

}  // namespace troupe::cuda
