#include "ops/cuda/stream.h"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "ops/cuda/error.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

class Fence final : public Work {
 public:
  explicit Fence(cudaStream_t stream, std::optional<Error> error) : error_(std::move(error)) {
    check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "make an event");
    if (const cudaError_t status = cudaEventRecord(event_, stream); status != cudaSuccess) {
      cudaEventDestroy(event_);
      check(status, "record an event");
    }
  }
  ~Fence() override { cudaEventDestroy(event_); }

  cudaEvent_t event() const { return event_; }
  /// Ends the fence if the device has passed it; false while it has not.
  bool end_if_passed() {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) return false;
    finish(error_ ? Status(*error_) : outcome(status));
    return true;
  }

 private:
  static Status outcome(cudaError_t status) {
    try {
      check(status, "run kernels");
      return success();
    } catch (const Error& error) {
      return error;
    }
  }

  cudaEvent_t event_ = nullptr;
  std::optional<Error> error_;  ///< of an earlier fence whose results its stream took
};

/// Ends the fences of all streams in their order, on a thread of its own: a host function must
/// not call CUDA, so it only wakes this thread. Host functions do not run after an error of the
/// context; so the thread also looks by itself now and then.
class Passing {
 public:
  void add(cudaStream_t stream, std::shared_ptr<Fence> fence) {
    const std::lock_guard lock(mutex_);
    waiting_[stream].push_back(std::move(fence));
  }
  static void CUDART_CB wake(void* self) {
    auto& passing = *static_cast<Passing*>(self);
    {
      const std::lock_guard lock(passing.mutex_);
      passing.woken_ = true;
    }
    passing.changed_.notify_one();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return woken_; });
      woken_ = false;
      std::vector<std::deque<std::shared_ptr<Fence>>*> queues;
      for (auto& [stream, fences] : waiting_) queues.push_back(&fences);
      // Only this thread takes fences out, and a map's entries stay where they are.
      for (auto* fences : queues)
        while (!fences->empty()) {
          const std::shared_ptr<Fence> first = fences->front();
          lock.unlock();
          const bool passed = first->end_if_passed();
          lock.lock();
          if (!passed) break;
          fences->pop_front();
        }
      std::erase_if(waiting_, [](const auto& one) { return one.second.empty(); });
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::map<cudaStream_t, std::deque<std::shared_ptr<Fence>>> waiting_;
  std::thread thread_{[this] { work(); }};
};

// Never destroyed, nor is its thread joined: CUDA may wake it until the process has ended.
Passing& passing() {
  static auto* passing = new Passing;
  return *passing;
}

class Stream final : public DeviceStream {
 public:
  explicit Stream(Device device) : DeviceStream(device) {
    const OnDevice here(device.index);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
    check(cudaStreamCreateWithFlags(&signals_, cudaStreamNonBlocking), "make a stream");
  }
  ~Stream() override {  // work that was given still runs
    if (stream_) cudaStreamDestroy(stream_);
    if (signals_) cudaStreamDestroy(signals_);
  }

  WorkPtr record() override {
    const std::lock_guard lock(mutex_);
    if (last_) return last_;
    const OnDevice here(device().index);
    auto fence = std::make_shared<Fence>(stream_, error_);
    passing().add(stream_, fence);
    // On a stream of its own, so that the next kernel does not wait for the host.
    check(cudaStreamWaitEvent(signals_, fence->event()), "wait for an event");
    check(cudaLaunchHostFunc(signals_, Passing::wake, &passing()), "call the host");
    last_ = fence;
    return fence;
  }
  void wait(const WorkPtr& work, Awaits what) override {
    const auto fence = std::dynamic_pointer_cast<Fence>(work);
    if (!fence)
      throw Error(ErrorCode::internal, "a CUDA stream waits for a fence of no CUDA stream");
    const std::lock_guard lock(mutex_);
    // What fails on the device fails for all streams of the process; only errors that a fence has
    // by itself have to be handed on.
    if (what == Awaits::results && fence->done() && !error_)
      if (const Status ended = fence->status(); !ended) error_ = ended.error();
    const OnDevice here(device().index);
    check(cudaStreamWaitEvent(stream_, fence->event()), "wait for an event");
    last_ = nullptr;
  }
  void synchronize() override {
    check(cudaStreamSynchronize(stream_), "wait for a stream");
    const std::lock_guard lock(mutex_);
    if (error_) throw Error(*error_);
  }
  /// For work that is about to be given.
  cudaStream_t give() {
    const std::lock_guard lock(mutex_);
    last_ = nullptr;
    return stream_;
  }

 private:
  std::mutex mutex_;
  cudaStream_t stream_ = nullptr, signals_ = nullptr;
  std::shared_ptr<Fence> last_;  ///< null if work was given since
  std::optional<Error> error_;
};

}  // namespace

OnDevice::OnDevice(std::int16_t device) {
  check(cudaGetDevice(&before_), "find the current device");
  if (device != before_) check(cudaSetDevice(device), "choose a device");
}
OnDevice::~OnDevice() { cudaSetDevice(before_); }

std::shared_ptr<DeviceStream> open_stream(Device device) {
  return std::make_shared<Stream>(device);
}

cudaStream_t native(const troupe::Stream& stream) {
  auto* opened = dynamic_cast<Stream*>(device_stream(stream));
  if (!opened)
    throw Error(ErrorCode::internal, "a kernel was given to a CUDA stream that is not open");
  return opened->give();
}

}  // namespace troupe::cuda
