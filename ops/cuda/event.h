#pragma once
#include <cuda_runtime_api.h>

#include <utility>

namespace troupe::cuda {

/// A point in the work of a stream: a recorded CUDA event, or none. Events are kept for reuse, so
/// that most recordings are one call. What waits for a recording is not affected when its event is
/// recorded again. Moved, not copied.
class Event {
 public:
  Event() = default;
  /// After all work that the stream was given before. Throws the Error of CUDA.
  static Event record(cudaStream_t stream);
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }

  explicit operator bool() const { return event_ != nullptr; }
  cudaEvent_t get() const { return event_; }
  /// cudaErrorNotReady while the device has not come that far, then how the work has ended. Success
  /// for none.
  cudaError_t query() const;

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace troupe::cuda
