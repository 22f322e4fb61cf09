#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "ops/cuda/host_steps.h"
#include "runtime/device/device_stream.h"

namespace troupe::cuda {

class Event;

/// Opens a stream of the device. Its fences are CUDA events: another stream waits for one on the
/// device, and the host learns of its end from the thread of host steps, which wakes for fences
/// that somebody waits for by Work::then. Errors of CUDA's context are sticky: after one, every
/// fence ends with it.
std::shared_ptr<DeviceStream> open_stream(Device device);

/// The CUDA stream on which a kernel is about to enqueue work. Throws Error{internal} for one that
/// was not opened.
cudaStream_t native(const Stream& stream);

/// Throws Error{unsupported} while the stream captures a graph, of which `what` cannot be a part.
void check_not_capturing(const Stream& stream, const char* what);

/// Whether a stream captures what this thread gives it.
bool captures_here();

/// While one of these lives, no stream captures: the host may not wait for the device meanwhile.
/// Waits for captures of other threads, which take no longer than an action of an actor. Not for
/// threads that capture.
class NoCapture {
 public:
  NoCapture();
  ~NoCapture();
  NoCapture(const NoCapture&) = delete;
  NoCapture& operator=(const NoCapture&) = delete;
};

/// Adds a host step, which runs when the work enqueued on the stream so far is done. Fences
/// recorded from now on end after the step, as do those of streams that wait for their results;
/// kernels do not wait for it. It runs with the next fence, or earlier if `wakes`, the step's own
/// event, is given: its completion then wakes the host.
void add_host_step(const Stream& stream, const std::shared_ptr<HostStep>& step,
                   const Event* wakes = nullptr);

}  // namespace troupe::cuda
