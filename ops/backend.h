#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "ops/kernels.h"
#include "runtime/tensor/allocator.h"

namespace troupe {

/// All that is particular to one kind of device. The CPU's is `ops/cpu/backend.h`.
struct Backend {
  std::string_view name;
  /// The kernels for tensors of a type; null where the backend has none.
  const KernelTable* (*kernels)(DType dtype);
  /// What of this device decides which algorithms, and so which bits, its kernels compute, for
  /// instance "intel with AVX-512". Where it differs, the same run may end with other weights.
  std::string (*fingerprint)();
  /// The most bytes of working memory that a kernel of this process has requested since the last
  /// call.
  std::size_t (*take_peak_request)();
};

/// The backend of a device. Throws Error{unsupported} for a device that this build has none for.
const Backend& backend(Device device);

/// Adds a backend and the memory of its devices. Once for each kind of device, before tensors on
/// such a device are made; the backend lives as long as the process.
void register_backend(Device::Kind kind, const Backend& backend, const DeviceMemory& memory);

}  // namespace troupe
