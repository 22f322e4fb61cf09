#include "ops/kernels.h"

#include <fmt/format.h>

#include "ops/cpu/table.h"
#include "ops/reference/table.h"
#include "runtime/error.h"

namespace troupe {

const KernelTable& kernels(Device device, DType dtype) {
  if (device.kind == Device::Kind::cpu) {
    if (dtype == DType::f32) return cpu::table();
    if (dtype == DType::f64) return reference::table<double>();
  }
  throw Error(
      ErrorCode::unsupported,
      fmt::format("no kernels for {} on {} in this build", name_of(dtype), to_string(device)),
      "use precision f32 or f64 on the cpu");
}

}  // namespace troupe
