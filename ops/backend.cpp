#include "ops/backend.h"

#include <fmt/format.h>

#include "ops/cpu/backend.h"
#include "ops/kernels.h"
#include "runtime/error.h"

namespace troupe {

const Backend& backend(Device device) { return device.backend ? *device.backend : cpu_backend(); }

void check_products(const Stream& stream) {
  const Backend& computes = backend(stream.device);
  if ((stream.conv_tf32 || stream.matmul_tf32) && !computes.has_tf32)
    throw Error(ErrorCode::unsupported,
                fmt::format("`{}` is tf32, but the device {} has no TF32",
                            stream.conv_tf32 ? "Stream::conv_tf32" : "Stream::matmul_tf32",
                            to_string(stream.device)),
                "set it to ieee, or compute on a GPU");
  if (computes.multiplies(stream.products)) return;
  const bool bf16 = stream.products == DType::bf16 && stream.device == Device::cpu();
  throw Error(
      ErrorCode::unsupported,
      fmt::format(
          "`Stream::products` needs matrix products in {}, which the device {} does not support{}",
          name_of(stream.products), to_string(stream.device),
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
