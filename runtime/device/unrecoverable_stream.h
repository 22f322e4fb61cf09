#pragma once
#include "runtime/device/device_stream.h"

namespace troupe {

/// A stream of a device that the process cannot use after an error, such as a GPU: the error ends
/// the run. No actor then returns to the state before the failed work, so votes need not wait for
/// the device.
class UnrecoverableStream : public DeviceStream {
 public:
  using DeviceStream::DeviceStream;

  /// As record(), but the host is not told when it passes: for other streams to wait for.
  virtual WorkPtr fence() = 0;
  /// Requests an early notification of the host when a fence() of this stream has passed.
  virtual void notify(const WorkPtr& fence) = 0;
};

}  // namespace troupe
