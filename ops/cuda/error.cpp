#include "ops/cuda/error.h"

#include <fmt/format.h>

#include <string>

#include "ops/cuda/elements.h"
#include "runtime/error.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe::cuda {
namespace {

Error unusable(std::string what, std::string remedy) {
  return Error(ErrorCode::unsupported, std::move(what), std::move(remedy));
}

}  // namespace

void check(cudaError_t status, const char* operation, std::source_location where) {
  if (status == cudaSuccess) return;
  const std::string what = fmt::format("CUDA could not {}: {} ({})", operation,
                                       cudaGetErrorString(status), cudaGetErrorName(status));
  switch (status) {
    case cudaErrorMemoryAllocation:
      throw OutOfMemory(what,
                        "lower `batch_size`, raise `micro_batches`, or choose a device with "
                        "more memory");
    case cudaErrorNoDevice:
      throw unusable(what,
                     "ask the scheduler for a GPU, see whether CUDA_VISIBLE_DEVICES hides "
                     "it, or compute on the CPU");
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch: {
      int driver = 0, runtime = 0;
      cudaDriverGetVersion(&driver);
      cudaRuntimeGetVersion(&runtime);
      if (driver == 0)
        throw unusable(what + ": no driver is installed here",
                       "run on a host with a GPU, or compute on the CPU");
      throw unusable(
          fmt::format("{}: the driver is for CUDA {}.{}, and this build for CUDA {}.{}", what,
                      driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10),
          "update the driver, or build with an older CUDA toolkit");
    }
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
      throw unusable(what, "build for the architecture of this device (TROUPE_CUDA_ARCHITECTURES)");
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorInitializationError:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorStubLibrary:
      throw unusable(what,
                     "see whether another process has the GPU for itself, ask the centre, or "
                     "compute on the CPU");
    case cudaErrorInvalidValue:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorNotSupported:
      throw Error(ErrorCode::internal,
                  fmt::format("{} at {}:{}", what, where.file_name(), where.line()));
    // The context is lost, and with it all that lay in the device's memory: another incarnation of
    // the actor would meet the same error in this process, so the code is a lasting one.
    default:
      throw Error(ErrorCode::io, fmt::format("{} at {}:{}", what, where.file_name(), where.line()),
                  "resume from the last checkpoint in a new process");
  }
}

void check_alike(const char* kernel, const Tensor& a, const Tensor& b) {
  if (a.shape() == b.shape() && a.layout() == b.layout() && a.dtype() == b.dtype()) return;
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: {} {} ({}) does not fit {} {} ({})", kernel, name_of(a.dtype()),
                          to_string(a.shape()), name_of(a.layout()), name_of(b.dtype()),
                          to_string(b.shape()), name_of(b.layout())));
}

void check_f32(DType dtype) {
  if (dtype != DType::f32)
    throw Error(ErrorCode::unsupported, fmt::format("no kernel for {} on a GPU", name_of(dtype)),
                "compute in f32 or f64");
}

}  // namespace troupe::cuda
