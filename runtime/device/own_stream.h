#pragma once
#include <memory>

#include "runtime/device/device_stream.h"

namespace troupe {

/// A stream of one owner, such as an incarnation of an actor that computes. It is opened when it is
/// first used: the prototype of an actor needs none. Used by one thread at a time.
/// An actor that sends what this stream computes returns device_stream() from Actor::stream(): else
/// the runtime sends it without a fence, and its receiver may read it too early.
class OwnStream {
 public:
  /// With the device and the other properties of `like`, which has no handle.
  explicit OwnStream(const Stream& like = {}) : stream_(like) {}
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  /// For kernels. Throws what Backend::open_stream throws.
  const Stream& get() const;
  /// The opened stream; null on a device that has none.
  DeviceStream* device_stream() const { return troupe::device_stream(get()); }

 private:
  mutable Stream stream_;
  mutable std::shared_ptr<DeviceStream> opened_;
};

}  // namespace troupe
