#pragma once
#include <cstdint>
#include <string>

#include "runtime/error.h"
#include "runtime/tensor/device.h"

namespace troupe {

/// Which device computes.
enum class DeviceChoice : std::uint8_t {
  automatic,  ///< a GPU if one can be used and the run has one process, else the CPU
  cpu,
  cuda,  ///< an NVIDIA GPU
};

/// The first NVIDIA GPU of this process, or why there is none: Error{io} if libtroupe_cuda.so is
/// not found, Error{unsupported} if it cannot be used. The first call opens it: TROUPE_CUDA_LIBRARY
/// if this variable is set, else the one beside the program, in ../lib/troupe, or where the system
/// looks. A process that does not ask needs no driver.
Result<Device> find_gpu();

/// The error of find_gpu for a reason.
Error no_gpu(const std::string& reason,
             std::string remedy = "`build with CUDA` (docs/gpu.md), or set `device` to cpu");

/// For a run of so many processes: of several, a choice that is automatic takes the CPU, since no
/// transport carries a GPU's tensors, and one that demands a GPU throws. Throws what find_gpu()
/// returns if a GPU is demanded.
Device choose_device(DeviceChoice choice, std::uint32_t processes);

}  // namespace troupe
