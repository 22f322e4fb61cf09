#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <optional>
#include <utility>

namespace troupe::cuda {

/// A point in the work of a stream: a recorded CUDA event, or none. Events are kept for reuse, so
/// that most recordings are one call. What waits for a recording is not affected when its event is
/// recorded again. Moved, not copied.
class Event {
 public:
  enum class Kind : bool { plain, timed };

  Event() = default;
  /// After all work that the stream was given before. Throws the Error of CUDA.
  static Event record(cudaStream_t stream, Kind kind = Kind::plain);
  ~Event();
  Event(Event&& other) noexcept
      : event_(std::exchange(other.event_, nullptr)), kind_(other.kind_) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    std::swap(kind_, other.kind_);
    return *this;
  }

  explicit operator bool() const { return event_ != nullptr; }
  cudaEvent_t get() const { return event_; }
  /// cudaErrorNotReady until the device has reached the event, then the status of the work before
  /// it. Success for an empty Event.
  cudaError_t query() const;
  /// The time that passed on the device between two timed events, this one the later. None if one
  /// has not passed, or after an error.
  std::optional<std::chrono::nanoseconds> since(const Event& earlier) const;

 private:
  cudaEvent_t event_ = nullptr;
  Kind kind_ = Kind::plain;
};

}  // namespace troupe::cuda
