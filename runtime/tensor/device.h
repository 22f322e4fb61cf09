#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/tensor/dtype.h"

namespace troupe {

struct Backend;      // runtime/tensor/backend.h
class DeviceStream;  // runtime/device/device_stream.h

/// A place that holds tensors and computes on them.
struct Device {
  const Backend* backend = nullptr;  ///< of devices of this kind; null for the CPU
  std::int16_t index = 0;            ///< among them

  bool operator==(const Device&) const = default;
  static constexpr Device cpu() { return {}; }
};

std::string to_string(Device device);  ///< "cpu", "cuda:0"

/// Where a kernel runs; an argument of every kernel. Each action of an actor may run on another
/// thread, so results depend on no thread-local state.
struct Stream {
  Device device;
  int threads = 1;                 ///< intra-op width on the CPU; results do not depend on it
  DeviceStream* handle = nullptr;  ///< null on devices without streams
  /// To what convolutions and linear layers of f32 round what they multiply: f32 (not at all), bf16
  /// or f16. Sums are in f32; results too on the CPU, on a GPU they are of this type and stay in it
  /// (mixed precision: P. Micikevicius et al., "Mixed precision training", ICLR 2018).
  DType products = DType::f32;
  /// Whether products that stay in f32 may be rounded to TF32, which has f32's exponents and ten
  /// bits of mantissa: those of convolutions; those of linear layers and matmul. Only devices with
  /// Backend::has_tf32 do so.
  bool conv_tf32 = false, matmul_tf32 = false;
  /// Whether equal calls give equal bits. If not, a GPU's convolutions may add in any order: they
  /// take the algorithm that cuDNN predicts to be fastest. The CPU's are always deterministic.
  bool deterministic = true;
};

}  // namespace troupe
