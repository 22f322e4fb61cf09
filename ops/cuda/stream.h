#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "runtime/device/device_stream.h"

namespace troupe::cuda {

/// Opens a stream of the device. Its fences are CUDA events: another stream waits for
/// one on the device, and the host learns of its end from a thread that a host function of CUDA
/// wakes. Errors of CUDA's context are sticky: after one, every fence ends with it.
std::shared_ptr<DeviceStream> open_stream(Device device);

/// The stream of CUDA's that a kernel gives its work to. Throws Error{internal} for one that was
/// not opened.
cudaStream_t native(const Stream& stream);

/// Calls of the runtime that name no stream, such as cudaMalloc, go to this device while one of
/// these lives; afterwards the thread's device is the one before.
class OnDevice {
 public:
  explicit OnDevice(std::int16_t device);
  ~OnDevice();
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = 0;
  bool changed_ = false;
};

}  // namespace troupe::cuda
