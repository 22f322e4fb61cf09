#include "ops/cuda/range.h"

#include <algorithm>

namespace troupe::cuda {

// The host sees an end some time after it, so that the earliest zero seen is the best; the device's
// clock may be slower than the host's by a ten-thousandth.
std::optional<DeviceSpan> RangeClock::span(const Event& begin, Event& end) {
  const auto length = end.since(begin);
  const auto since_last = last_ ? end.since(last_) : std::chrono::nanoseconds{0};
  if (!length || !since_last) return std::nullopt;
  device_ += *since_last;
  const TimePoint seen = std::chrono::steady_clock::now() - device_;
  zero_ = last_ ? std::min(zero_ + *since_last / 10'000, seen) : seen;
  last_ = std::move(end);
  return DeviceSpan{zero_ + device_ - *length, zero_ + device_};
}

}  // namespace troupe::cuda
