#include "ops/backend.h"

#include <fmt/format.h>

#include "ops/cpu/backend.h"
#include "ops/kernels.h"
#include "runtime/error.h"

namespace troupe {

const Backend& backend(Device device) { return device.backend ? *device.backend : cpu_backend(); }

void check_products(const Stream& stream) {
  const Backend& computes = backend(stream.device);
  if (computes.multiplies(stream.products)) return;
  const bool bf16 = stream.products == DType::bf16 && stream.device == Device::cpu();
  throw Error(ErrorCode::unsupported,
              fmt::format("`Stream::products` is {}, but the device {} does not multiply in {}{}",
                          stream.products == DType::f16 ? "16-mixed" : "bf16-mixed",
                          to_string(stream.device), name_of(stream.products),
                          bf16 ? ": it has neither AVX-512 BF16 nor AMX, or ONEDNN_MAX_CPU_ISA "
                                 "forbids them"
                               : ""),
              fmt::format("set `Stream::products` to 32-true{}, or compute on a GPU",
                          stream.products == DType::f16 && computes.multiplies(DType::bf16)
                              ? " or bf16-mixed"
                              : ""));
}

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
