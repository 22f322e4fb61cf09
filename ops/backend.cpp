#include "ops/backend.h"

#include <fmt/format.h>

#include "ops/cpu/backend.h"
#include "ops/kernels.h"
#include "runtime/error.h"

namespace troupe {

const Backend& backend(Device device) { return device.backend ? *device.backend : cpu_backend(); }

namespace {

/// For a remedy: the other mixed precision, if the device has it.
std::string_view other_mixed(const Backend& backend, DType products) {
  const DType other = products == DType::f16 ? DType::bf16 : DType::f16;
  if (!backend.multiplies(other)) return "";
  return other == DType::bf16 ? " or bf16-mixed" : " or 16-mixed";
}

}  // namespace

void check_products(const Stream& stream) {
  const Backend& computes = backend(stream.device);
  if (computes.multiplies(stream.products)) return;
  const bool bf16 = stream.products == DType::bf16 && stream.device == Device::cpu();
  throw Error(
      ErrorCode::unsupported,
      fmt::format("`Stream::products` is {}, but the device {} does not multiply in {}{}",
                  stream.products == DType::f16 ? "16-mixed" : "bf16-mixed",
                  to_string(stream.device), name_of(stream.products),
                  bf16 ? ": it has neither AVX-512 BF16 nor AMX, or ONEDNN_MAX_CPU_ISA "
                         "forbids them"
                       : ""),
      fmt::format("set `Stream::products` to 32-true{}{}", other_mixed(computes, stream.products),
                  stream.device == Device::cpu() ? ", or compute on a GPU" : ""));
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
