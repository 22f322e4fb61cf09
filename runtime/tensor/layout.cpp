#include "runtime/tensor/layout.h"

#include "runtime/tensor/device.h"

namespace troupe {

std::string_view name_of(Layout layout) {
  switch (layout) {
    case Layout::row_major:
      return "row_major";
    case Layout::nhwc:
      return "nhwc";
    case Layout::nchw16c:
      return "nchw16c";
  }
  return "unknown layout";
}

std::string to_string(Device device) {
  if (device.kind == Device::Kind::cpu) return "cpu";
  return "cuda:" + std::to_string(device.index);
}

}  // namespace troupe
