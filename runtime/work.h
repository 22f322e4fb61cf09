#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/error.h"

namespace troupe {

/// Work that goes on after the call that began it has returned, such as an operation of a transport
/// or of a device (a fence: runtime/device/device_stream.h). It ends once, with success or an
/// error. Thread-safe. A Work may outlive what does it, such as a Communicator, whose destructor
/// ends it.
class Work {
 public:
  virtual ~Work() = default;
  Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  bool done() const;
  /// How it ended. Throws Error{internal} before the end.
  Status status() const;
  /// Calls `next` once, at the end: on a thread of the transport or device, on one that delivers
  /// pending arrivals (DeliveryDeferral), or at once if the work has ended. It must not block,
  /// throw, or destroy the Communicator; it may start other work.
  virtual void then(std::function<void(const Status&)> next);

  /// For transports and devices: ends the work. Only the first call has an effect, and returns
  /// true.
  bool finish(Status status) { return finish(std::move(status), {}); }

 protected:
  /// The same; `store` runs before the end is visible.
  bool finish(Status status, const std::function<void()>& store);

 private:
  mutable std::mutex mutex_;
  std::optional<Status> status_;
  std::vector<std::function<void(const Status&)>> next_;
};

using WorkPtr = std::shared_ptr<Work>;

}  // namespace troupe
