#include "ops/cuda/stream.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TROUPE_NVTX
#endif

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "ops/cuda/error.h"
#include "ops/cuda/event.h"
#include "ops/cuda/graph.h"
#include "ops/cuda/range.h"
#include "runtime/device/device_stream.h"
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

class Fence final : public Work, public HostStep {
 public:
  /// `number`: among the fences of the stream, whose id is `stream`.
  Fence(std::weak_ptr<DeviceStream> opened, std::uint64_t stream, std::uint64_t number,
        cudaStream_t native)
      : opened_(std::move(opened)), stream_(stream), number_(number) {
    try {
      event_ = Event::record(native);
    } catch (const Error& failure) {
      // Where the context is lost no work runs any more, so that its end needs no event.
      if (failure.code() != ErrorCode::device_lost) throw;
      error_ = failure;
    }
  }

  std::uint64_t stream() const { return stream_; }
  std::uint64_t number() const { return number_; }
  const Event& event() const { return event_; }  ///< none if it could not be recorded
  void then(std::function<void(const Status&)> next) override;
  bool try_run() override {
    const cudaError_t status = event_.query();
    if (status == cudaErrorNotReady) return false;
    const std::optional<Error> error = error_ ? error_ : error_of(status, "run kernels");
    finish(error ? Status(*error) : success());
    return true;
  }

  /// Whether the thread that ends it is woken when the device has passed it. With the lock of the
  /// stream.
  bool wakes = false;

 private:
  std::weak_ptr<DeviceStream> opened_;
  std::uint64_t stream_, number_;
  Event event_;
  std::optional<Error> error_;
};
using FencePtr = std::shared_ptr<Fence>;

/// Lets the later fences of a stream end after one of another, whose host steps the device does not
/// wait for.
struct After final : HostStep {
  explicit After(FencePtr awaited) : fence(std::move(awaited)) {}
  bool try_run() override { return fence->done(); }
  FencePtr fence;
};

/// Work that was given still runs when it is destroyed.
class NativeStream {
 public:
  NativeStream() {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "make a stream");
  }
  ~NativeStream() { cudaStreamDestroy(stream_); }
  NativeStream(const NativeStream&) = delete;
  NativeStream& operator=(const NativeStream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Makes the device's context that of this thread. CUDA's runtime does so by itself, but a thread
/// may call one of its libraries first.
void use_device_here() {
  thread_local bool used = false;
  if (used) return;
  check(cudaSetDevice(0), "use the device");
  used = true;
}

/// Held by the thread that captures, or by one that keeps others from it.
std::mutex& capturing() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
thread_local std::unique_lock<std::mutex> own_capture;
/// Held by all threads that give work for the first time which they will capture, or by one that
/// captures: to load kernels and to make plans may wait for the device.
std::shared_mutex& preparing() {
  static auto* mutex = new std::shared_mutex;
  return *mutex;
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

class Stream final : public DeviceStream {
 public:
  explicit Stream(Device device) : DeviceStream(device) {}

  bool errors_end_run() const override { return true; }
  WorkPtr fence() override {
    const std::lock_guard lock(mutex_);
    if (before_capture_) return before_capture_;
    return last_ ? last_ : add_fence();
  }
  void wake_behind(Fence& fence) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(fence.wakes, true)) wake_behind(fence.event());
  }
  std::uint64_t mark() override {
    const std::lock_guard lock(mutex_);
    if (before_capture_) return before_capture_->number();
    return last_ ? last_->number() : recorded_ + 1;
  }
  WorkPtr fence_after(std::uint64_t mark) override {
    const std::lock_guard lock(mutex_);
    if (mark > recorded_) return add_fence();
    forget_passed();
    if (fences_.empty() || mark < fences_.front()->number()) return nullptr;
    return fences_[mark - fences_.front()->number()];
  }
  void wait(const WorkPtr& work, Awaits what) override {
    const auto fence = std::dynamic_pointer_cast<Fence>(work);
    if (!fence)
      throw Error(ErrorCode::internal,
                  "a CUDA stream cannot wait for a fence of another kind of stream");
    const std::lock_guard lock(mutex_);
    last_ = nullptr;
    // Its error needs no passing on: an error of the device is one for all streams of the process.
    if (what == Awaits::results && !fence->done()) steps_.add(std::make_shared<After>(fence));
    std::uint64_t& waited = waited_[fence->stream()];
    if (!fence->event() || fence->number() <= waited) return;
    if (before_capture_) {
      if (fence->event().query() == cudaErrorNotReady)
        throw not_captured("a wait for another stream");
      return;
    }
    check(cudaStreamWaitEvent(stream_.get(), fence->event().get()), "wait for an event");
    waited = fence->number();
  }
  void synchronize() override {
    const auto check_work = [this] {
      check(cudaStreamSynchronize(stream_.get()), "wait for a stream");
    };
    check_work();
    steps_.wait();
    check_work();  // a step does nothing once the context is lost, by work of another stream too
  }
  void begin_range([[maybe_unused]] const std::string& name) override {
#ifdef TROUPE_NVTX
    nvtxRangePushA(name.c_str());
#endif
    const std::lock_guard lock(mutex_);
    in_range_ = true;
  }
  DeviceRangePtr end_range() override {
#ifdef TROUPE_NVTX
    nvtxRangePop();
#endif
    const std::lock_guard lock(mutex_);
    in_range_ = false;
    Event begin = std::move(range_begin_), end;
    if (!begin || !(end = timed_event())) return nullptr;
    return std::make_unique<Range>(clock_, std::move(begin), std::move(end));
  }
  void repeat_with(const Tensor& key) override {
    DeviceStream::repeat_with(key);
    prepares_ =
        key.defined() ? std::shared_lock(preparing()) : std::shared_lock<std::shared_mutex>();
  }
  bool captures() const override { return true; }
  void begin_capture() override {
    prepares_ = {};
    std::unique_lock alone(preparing());
    const cudaStream_t stream = give();  // the range begins before the work that is launched
    std::unique_lock captures(capturing());
    const std::lock_guard lock(mutex_);
    const FencePtr before = add_fence();
    CapturedWork::begin(stream);
    before_capture_ = before;
    own_capture = std::move(captures);
    captures_alone_ = std::move(alone);
  }
  DeviceGraphPtr end_capture() override;
  /// Throws while work is captured: what is done with the CPU's memory is done once.
  void check_not_capturing(const char* what) {
    const std::lock_guard lock(mutex_);
    if (before_capture_) throw not_captured(what);
  }
  /// For work that is about to be given.
  cudaStream_t give() {
    use_device_here();
    const std::lock_guard lock(mutex_);
    giver_ = std::this_thread::get_id();
    last_ = nullptr;
    // An event that is captured has no time.
    if (in_range_ && !range_begin_ && !before_capture_) range_begin_ = timed_event();
    return stream_.get();
  }
  void add(const std::shared_ptr<HostStep>& step, const Event* wakes) {
    const std::lock_guard lock(mutex_);
    steps_.add(step);
    if (wakes) wake_behind(*wakes);
  }

 private:
  static Error not_captured(const std::string& what) {
    return Error(ErrorCode::unsupported, what + " cannot be a part of a CUDA graph",
                 "set `cuda_graphs` to false");
  }
  // With the lock. None if it cannot be had: the error is that of the work which follows.
  Event timed_event() {
    try {
      return Event::record(stream_.get(), Event::Kind::timed);
    } catch (const Error&) {
      return {};
    }
  }
  // With the lock.
  FencePtr add_fence() {
    auto fence = std::make_shared<Fence>(weak_from_this(), id_, recorded_ + 1, stream_.get());
    forget_passed();
    steps_.add(fence);  // first: a fence that is recorded must end, also if memory runs out here
    fences_.push_back(fence);
    ++recorded_;
    // Another thread may be between give() and its work, which comes after this fence.
    if (giver_ == std::this_thread::get_id()) last_ = fence;
    return fence;
  }
  void forget_passed() {
    while (!fences_.empty() && fences_.front()->done()) fences_.pop_front();
  }
  // On a stream of its own, so that the next kernel does not wait for the host. If this fails, the
  // thread of the host steps finds the end by itself.
  void wake_behind(const Event& event) {
    if (event && cudaStreamWaitEvent(signals_.get(), event.get()) == cudaSuccess)
      HostSteps::wake_behind(signals_.get());
  }

  const std::uint64_t id_ = next_id();
  std::mutex mutex_;
  NativeStream stream_, signals_;
  HostSteps steps_;
  std::deque<FencePtr> fences_;  ///< the last ones; without gaps up to number recorded_
  std::uint64_t recorded_ = 0;   ///< fences
  FencePtr last_;                ///< null if work was given since
  std::thread::id giver_;        ///< of the last work
  bool in_range_ = false;
  /// While work is captured, the fence of all that was given before. Other threads record none
  /// meanwhile: what is captured runs only when it is launched.
  FencePtr before_capture_;
  std::shared_lock<std::shared_mutex> prepares_;        ///< of the owner's thread, as the next one
  std::unique_lock<std::shared_mutex> captures_alone_;  ///< while it captures
  Event range_begin_;                                   ///< before the first work of the range
  const std::shared_ptr<RangeClock> clock_ = std::make_shared<RangeClock>();
  std::unordered_map<std::uint64_t, std::uint64_t> waited_;  ///< the last fence of other streams
};

void Fence::then(std::function<void(const Status&)> next) {
  if (const auto stream = opened_.lock()) static_cast<Stream&>(*stream).wake_behind(*this);
  Work::then(std::move(next));
}

class CapturedGraph final : public DeviceGraph {
 public:
  CapturedGraph(std::shared_ptr<Stream> stream, const CapturedWork& work)
      : stream_(std::move(stream)), graph_(work) {}
  void launch() override { graph_.launch(stream_->give()); }

 private:
  std::shared_ptr<Stream> stream_;
  Graph graph_;
};

DeviceGraphPtr Stream::end_capture() {
  const auto alone = std::exchange(captures_alone_, {});
  const auto captured = std::exchange(own_capture, {});
  // Other threads, which wait for the lock, record fences again once the capture has ended, however
  // it ends, and before the graph is instantiated.
  const auto end = [this] {
    const std::lock_guard lock(mutex_);
    const auto before = std::exchange(before_capture_, nullptr);
    return CapturedWork(stream_.get());
  };
  const CapturedWork work = end();
  return std::make_unique<CapturedGraph>(std::static_pointer_cast<Stream>(shared_from_this()),
                                         work);
}

Stream& opened(const troupe::Stream& stream) {
  auto* opened = dynamic_cast<Stream*>(device_stream(stream));
  if (!opened)
    throw Error(ErrorCode::internal, "a kernel was given to a CUDA stream that is not open");
  return *opened;
}

}  // namespace

std::shared_ptr<DeviceStream> open_stream(Device device) {
  check(device.index == 0 ? cudaSuccess : cudaErrorInvalidDevice, "use a device other than 0");
  return std::make_shared<Stream>(device);
}

cudaStream_t native(const troupe::Stream& stream) { return opened(stream).give(); }

bool captures_here() { return own_capture.owns_lock(); }

NoCapture::NoCapture() { capturing().lock(); }
NoCapture::~NoCapture() { capturing().unlock(); }

void check_not_capturing(const troupe::Stream& stream, const char* what) {
  opened(stream).check_not_capturing(what);
}

void add_host_step(const troupe::Stream& stream, const std::shared_ptr<HostStep>& step,
                   const Event* wakes) {
  opened(stream).add(step, wakes);
}

}  // namespace troupe::cuda
