#pragma once
#include "runtime/device/device_stream.h"

namespace troupe {

/// A stream of a device with which a process can do nothing more after an error of its work, as
/// with a GPU: the error ends the run. So nobody goes back to the state before that work, and what
/// only says that the state is no longer needed does not wait for the device.
class UnrecoverableStream : public DeviceStream {
 public:
  using DeviceStream::DeviceStream;

  /// As record(), for other streams to wait for: the host may learn late that it has passed.
  virtual WorkPtr fence() = 0;
  /// The host is to learn early that a fence() of this stream has passed.
  virtual void notify(const WorkPtr& fence) = 0;
};

}  // namespace troupe
