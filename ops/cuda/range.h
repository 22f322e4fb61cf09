#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "ops/cuda/event.h"
#include "runtime/device/device_stream.h"

namespace troupe::cuda {

/// Puts the times of a stream's ranges on the host's clock. A device tells only how much time
/// passed between two events.
class RangeClock {
 public:
  /// DeviceRange::span of a range that is after those before.
  std::optional<DeviceSpan> span(const Event& begin, Event& end);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  Event last_;                          ///< the end of the last range; none before the first
  std::chrono::nanoseconds device_{0};  ///< its time, since the end of the first range
  TimePoint zero_;                      ///< the end of the first range, by the host's clock
};

/// The work between two timed events.
class Range final : public DeviceRange {
 public:
  Range(std::shared_ptr<RangeClock> clock, Event begin, Event end)
      : clock_(std::move(clock)), begin_(std::move(begin)), end_(std::move(end)) {}
  std::optional<DeviceSpan> span() override { return clock_->span(begin_, end_); }

 private:
  std::shared_ptr<RangeClock> clock_;
  Event begin_, end_;
};

}  // namespace troupe::cuda
