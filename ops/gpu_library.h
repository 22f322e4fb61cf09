#pragma once
// What libtroupe_cuda.so offers: the backend for GPUs, which GPUs this process sees, and, without a
// GPU or a driver, what it was built for and which memory convolutions need on a described GPU.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/convolution_work.h"
#include "ops/described_device.h"
#include "runtime/error.h"
#include "runtime/tensor/backend.h"

namespace troupe {

/// The library and the GPUs that this process sees.
struct GpuSurvey {
  struct Gpu {
    std::string name;      ///< "NVIDIA H200"; of a part of a GPU with "MIG" in it
    int architecture = 0;  ///< 90: sm_90
    std::int64_t memory_bytes = 0;
    std::string pci_bus_id;  ///< "00000000:3b:00.0"
    enum class Mode : std::uint8_t {
      shared,
      one_process,  ///< a second process that uses it fails
      none,         ///< no process may use it
    };
    Mode mode = Mode::shared;
  };
  std::vector<int> architectures;  ///< that it has kernels for, ascending
  int ptx = 0;                     ///< the driver can compile kernels for this one and later; 0: no
  int runtime = 0;                 ///< CUDA's version that it was built with: 13000 for 13.0
  int driver = 0;                  ///< the newest that the driver supports; 0: none
  std::vector<Gpu> gpus;           ///< in CUDA's order; Troupe uses the first
  std::optional<Error> failure;    ///< why there is none
};

/// Whether kernels of the library run on a GPU of this architecture: built for the same major
/// version and the same or an earlier minor one, or compiled from PTX. True of a library that does
/// not say what it has.
bool runs_on(const GpuSurvey& library, int architecture);

/// "sm_80, sm_90 and PTX of sm_120"; empty for a library that does not say.
std::string kernels_text(const GpuSurvey& library);
/// How to build for a GPU of this architecture.
std::string build_for(int architecture);
/// How to get a driver and a library that fit.
std::string fit_driver(int runtime, int driver);

struct GpuLibrary {
  const Backend* (*backend)();
  GpuSurvey (*survey)();  ///< asks the driver
  /// The workspace in bytes of one pass of a convolution on a described GPU; 0 if cuDNN does not
  /// compute it. Needs no driver.
  std::size_t (*workspace_bytes)(const ConvolutionWork& work, const DescribedDevice& on);
};

/// The library, which the first call opens (where: ops/devices.h, find_gpu()) and which then sets
/// the environment variable CUDA_DEVICE_MAX_CONNECTIONS, if it is not set. Error{io} if it is not
/// found, Error{unsupported} if it cannot be used.
Result<const GpuLibrary*> gpu_library();

}  // namespace troupe
