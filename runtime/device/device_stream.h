#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/tensor/device.h"
#include "runtime/tensor/tensor.h"
#include "runtime/work.h"

namespace troupe {

/// Why a stream waits for a fence: its work takes results of the work before the fence, so that an
/// error there becomes its own, or it only reuses memory.
enum class Awaits : std::uint8_t { results, memory };

/// When a device did some work, by the host's clock.
struct DeviceSpan {
  std::chrono::steady_clock::time_point begin, end;
};

/// Consecutive work of a stream, which the device times. Used by the owner of the stream.
class DeviceRange {
 public:
  virtual ~DeviceRange() = default;
  DeviceRange() = default;
  DeviceRange(const DeviceRange&) = delete;
  DeviceRange& operator=(const DeviceRange&) = delete;

  /// From the beginning of the first work to the end of the last; none before that end, or after an
  /// error of the device. The duration is exact; begin and end may be late by the time that the
  /// host takes to notice an end. To be read once, in the order of the ranges.
  virtual std::optional<DeviceSpan> span() = 0;
};
using DeviceRangePtr = std::unique_ptr<DeviceRange>;

/// Work that a stream has captured, to be launched again and again: on an NVIDIA GPU a CUDA graph.
/// Used by the owner of the stream. What was launched still runs when it is destroyed.
class DeviceGraph {
 public:
  virtual ~DeviceGraph() = default;
  DeviceGraph() = default;
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  /// Enqueues the work on the stream that captured it. Kernels use the memory that they used then.
  virtual void launch() = 0;
};
using DeviceGraphPtr = std::unique_ptr<DeviceGraph>;

/// A stream of a device: its work runs in the order in which it was enqueued, after the calls that
/// enqueue it have returned. Backend::open_stream opens one. Devices whose work is done when a call
/// returns, such as the CPU, have none. Kernels find it in Stream::handle.
///
/// One owner enqueues kernels (OwnStream). Any thread may call the functions below, but for those
/// that name the owner. Work that was enqueued before the destructor is called still runs.
class DeviceStream : public std::enable_shared_from_this<DeviceStream> {
 public:
  explicit DeviceStream(Device device) : device_(device) {}
  virtual ~DeviceStream() = default;
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

  Device device() const { return device_; }
  /// A fence: it ends when all work that was enqueued before has run, with the error of what
  /// failed. The fences of a stream end in their order. Where nothing was enqueued since the last
  /// fence, it may be that one. The host may learn late that a fence has passed, unless
  /// Work::then was called on it.
  virtual WorkPtr fence() = 0;
  /// Whether an error of the device ends the run: after it, the process cannot use a GPU again. No
  /// actor then returns to the state before the failed work, so votes need not wait for the
  /// device.
  virtual bool errors_end_run() const { return false; }
  /// A point in the work of the stream, after all that was enqueued before. The call enqueues
  /// nothing.
  virtual std::uint64_t mark() { return 0; }
  /// The first fence() after the mark. Null if the host knows already that the mark has passed.
  virtual WorkPtr fence_after(std::uint64_t /*mark*/) { return fence(); }
  /// Work that is enqueued from now on runs after the fence, which is of a stream of the same
  /// backend, has passed. The caller does not wait. If a fence that is awaited for its results ends
  /// with an error, so do the later fences of this stream.
  virtual void wait(const WorkPtr& fence, Awaits what) = 0;
  /// Blocks the caller until all work that was enqueued before has run. Throws the error of what
  /// failed. Not for handlers of actors, which must not block.
  virtual void synchronize() = 0;
  /// The owner begins a range: what it enqueues from here to end_range() is work of an
  /// actor of this name. Profilers show the name. Ranges are not nested.
  virtual void begin_range(const std::string& /*name*/) {}
  /// Does not throw. Null if no work was enqueued in the range, or the device does not time work.
  virtual DeviceRangePtr end_range() { return nullptr; }

  /// Whether the stream can capture work.
  virtual bool captures() const { return false; }
  /// The owner begins to capture: what it enqueues does not run, but becomes part of a graph, until
  /// end_capture(). Until then, copies from and to the CPU's memory throw, as do waits for fences
  /// that have not passed; fence() and mark() refer to the point before the capture. Both
  /// functions throw the error of the device; after end_capture() the stream works as before.
  virtual void begin_capture() {}
  virtual DeviceGraphPtr end_capture() { return nullptr; }
  /// The owner is about to enqueue work that it will repeat, or captures, with other random numbers
  /// each time: kernels read the step and the micro-batch of RandomKey from `key` when they run,
  /// and keep nothing from one time to the next. u32 [2] in the device's memory. Undefined: work
  /// that is enqueued once.
  virtual void repeat_with(const Tensor& key) { repeated_key_ = key; }
  const Tensor& repeated_key() const { return repeated_key_; }

 private:
  Device device_;
  Tensor repeated_key_;
};

/// The stream on which a kernel enqueues its work; null on a device that has none.
inline DeviceStream* device_stream(const Stream& stream) { return stream.handle; }

/// Blocks until all work of the stream is done, as DeviceStream::synchronize; where calls return
/// when they are done, there is nothing to wait for.
inline void synchronize(const Stream& stream) {
  if (DeviceStream* given_to = device_stream(stream)) given_to->synchronize();
}

}  // namespace troupe
