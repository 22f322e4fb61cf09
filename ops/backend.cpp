#include "ops/backend.h"

#include <fmt/format.h>

#include "ops/cpu/backend.h"
#include "ops/kernels.h"
#include "runtime/error.h"

namespace troupe {

const Backend& backend(Device device) { return device.backend ? *device.backend : cpu_backend(); }

const KernelTable& kernels(Device device, DType dtype) {
  const KernelTable* table = backend(device).kernels(dtype);
  if (!table)
    throw Error(
        ErrorCode::unsupported,
        fmt::format("no kernels for {} on {} in this build", name_of(dtype), to_string(device)),
        "compute in f32 or f64 on the CPU");
  return *table;
}

}  // namespace troupe
