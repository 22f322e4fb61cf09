#include "runtime/device/own_stream.h"

#include "runtime/tensor/backend.h"

namespace troupe {

const Stream& OwnStream::get() const {
  const Backend* backend = stream_.device.backend;
  if (!opened_ && backend && backend->open_stream) {
    opened_ = backend->open_stream(stream_.device.index);
    stream_.handle = opened_.get();
  }
  return stream_;
}

}  // namespace troupe
