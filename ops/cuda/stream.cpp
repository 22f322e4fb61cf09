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

std::optional<Error> error_of(cudaError_t status, const char* operation) {
  try {
    check(status, operation);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  }
}

class Fence final : public Work {
 public:
  /// `error` is that of an earlier fence whose results the stream took.
  Fence(cudaStream_t stream, std::optional<Error> error) : error_(std::move(error)) {
    cudaError_t status = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
    if (status == cudaSuccess) {
      status = cudaEventRecord(event_, stream);
      if (status != cudaSuccess) cudaEventDestroy(std::exchange(event_, nullptr));
    }
    const std::optional<Error> failure = error_of(status, "record an event");
    if (!failure) return;
    // Where the context is lost no work runs any more, so that its end needs no event.
    if (failure->code() != ErrorCode::io) throw Error(*failure);
    if (!error_) error_ = failure;
  }
  ~Fence() override {
    if (event_) cudaEventDestroy(event_);
  }

  cudaEvent_t event() const { return event_; }  ///< null if none could be recorded
  /// The error that it ends with, as far as it is known.
  std::optional<Error> error() const {
    if (error_ || !done()) return error_;
    const Status ended = status();
    return ended ? std::nullopt : std::optional(ended.error());
  }
  /// Ends the fence if the device has passed it; false while it has not.
  bool end_if_passed() {
    const cudaError_t status = event_ ? cudaEventQuery(event_) : cudaSuccess;
    if (status == cudaErrorNotReady) return false;
    const std::optional<Error> error = error_ ? error_ : error_of(status, "run kernels");
    finish(error ? Status(*error) : success());
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
  std::optional<Error> error_;
};

/// Ends the fences of all streams in their order, on a thread of its own: a host function must
/// not call CUDA, so it only wakes this thread. Host functions do not run after an error of the
/// context; so the thread also looks by itself now and then.
class Passing {
 public:
  void add(cudaStream_t stream, std::shared_ptr<Fence> fence) {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) changed_.notify_one();
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
  using Fences = std::deque<std::shared_ptr<Fence>>;

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return !waiting_.empty(); });
      changed_.wait_for(lock, std::chrono::milliseconds(50), [&] { return woken_; });
      woken_ = false;
      std::vector<Fences*> queues;
      for (auto& [stream, fences] : waiting_) queues.push_back(&fences);
      // Only this thread takes fences out, and a map's entries stay where they are.
      for (Fences* fences : queues) end_passed(*fences, lock);
      std::erase_if(waiting_, [](const auto& one) { return one.second.empty(); });
    }
  }
  // CUDA is called without the lock, which its host functions need.
  static void end_passed(Fences& fences, std::unique_lock<std::mutex>& lock) {
    while (!fences.empty()) {
      std::shared_ptr<Fence> first = fences.front();
      lock.unlock();
      const bool passed = first->end_if_passed();
      lock.lock();
      if (!passed) return;
      fences.pop_front();
      lock.unlock();
      first = nullptr;
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::map<cudaStream_t, Fences> waiting_;
  std::thread thread_{[this] { work(); }};
};

// Never destroyed, nor is its thread joined: CUDA may wake it until the process has ended.
Passing& passing() {
  static auto* passing = new Passing;
  return *passing;
}

/// Work that was given still runs when it is destroyed.
class NativeStream {
 public:
  explicit NativeStream(std::int16_t device) {
    const OnDevice here(device);
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
  ~NativeStream() { cudaStreamDestroy(stream_); }
  NativeStream(const NativeStream&) = delete;
  NativeStream& operator=(const NativeStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Stream final : public DeviceStream {
 public:
  explicit Stream(Device device)
      : DeviceStream(device), stream_(device.index), signals_(device.index) {}

  WorkPtr record() override {
    const std::lock_guard lock(mutex_);
    if (last_) return last_;
    const OnDevice here(device().index);
    auto fence = std::make_shared<Fence>(stream_.get(), error_);
    passing().add(stream_.get(), fence);
    // On a stream of its own, so that the next kernel does not wait for the host. If this fails,
    // the thread of Passing finds the end of the fence by itself.
    if (fence->event() && cudaStreamWaitEvent(signals_.get(), fence->event()) == cudaSuccess)
      cudaLaunchHostFunc(signals_.get(), Passing::wake, &passing());
    // Another thread may be between give() and its work, which comes after this fence.
    if (giver_ == std::this_thread::get_id()) last_ = fence;
    return fence;
  }
  void wait(const WorkPtr& work, Awaits what) override {
    const auto fence = std::dynamic_pointer_cast<Fence>(work);
    if (!fence)
      throw Error(ErrorCode::internal, "a CUDA stream waits for a fence of no CUDA stream");
    const std::lock_guard lock(mutex_);
    last_ = nullptr;
    // An error of the device that comes later is one for all streams of the process.
    if (what == Awaits::results && !error_) error_ = fence->error();
    if (!fence->event()) return;
    const OnDevice here(device().index);
    check(cudaStreamWaitEvent(stream_.get(), fence->event()), "wait for an event");
  }
  void synchronize() override {
    check(cudaStreamSynchronize(stream_.get()), "wait for a stream");
    const std::lock_guard lock(mutex_);
    if (error_) throw Error(*error_);
  }
  /// For work that is about to be given.
  cudaStream_t give() {
    const std::lock_guard lock(mutex_);
    giver_ = std::this_thread::get_id();
    last_ = nullptr;
    return stream_.get();
  }

 private:
  std::mutex mutex_;
  NativeStream stream_, signals_;
  std::shared_ptr<Fence> last_;  ///< null if work was given since
  std::thread::id giver_;        ///< of the last work
  std::optional<Error> error_;
};

}  // namespace

// If even the current device cannot be had, the calls that follow fail too, and tell why.
OnDevice::OnDevice(std::int16_t device) {
  if (cudaGetDevice(&before_) != cudaSuccess || device == before_) return;
  check(cudaSetDevice(device), "choose a device");
  changed_ = true;
}
OnDevice::~OnDevice() {
  if (changed_) cudaSetDevice(before_);
}

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
