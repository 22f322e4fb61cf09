#include "ops/cuda/error.h"

#include <fmt/format.h>

#include <string>

#include "ops/cuda/elements.h"
#include "ops/cuda/library.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

Error unusable(std::string what, std::string remedy) {
  return Error(ErrorCode::unsupported, std::move(what), std::move(remedy));
}

Error without_driver_for(const std::string& what) {
  int driver = 0, runtime = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  if (driver == 0)
    return unusable("no NVIDIA driver was found",
                    "run on a host with a GPU, or set `device` to cpu");
  return unusable(
      fmt::format("{}: the driver supports CUDA up to {}.{}, but this build needs CUDA {}.{}", what,
                  driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10),
      fit_driver(runtime, driver));
}

Error without_kernels_for(const std::string& what) {
  cudaDeviceProp found{};
  if (cudaGetDeviceProperties(&found, 0) != cudaSuccess)
    return unusable(what, "build for the architecture of this GPU (TROUPE_CUDA_ARCHITECTURES)");
  const int architecture = 10 * found.major + found.minor;
  return unusable(
      fmt::format(
          "{}: {} has compute capability {}.{} (sm_{}), but this build has kernels for {} only",
          what, found.name, found.major, found.minor, architecture, kernels_text(compiled_for())),
      build_for(architecture));
}

/// The context is lost, and with it all that lay in the device's memory: another incarnation of the
/// actor would meet the same error in this process.
Error context_lost(const std::string& what, std::string_view cause, std::string_view remedy) {
  return Error(ErrorCode::device_lost,
               fmt::format("{}: {}; the contents of the GPU's memory are lost, and only a new "
                           "process can use the GPU again",
                           what, cause),
               std::string(remedy));
}

}  // namespace

void check(cudaError_t status, const char* operation, std::source_location where) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears it: a later call could answer with it
  const std::string what = fmt::format("CUDA could not {}: {} ({})", operation,
                                       cudaGetErrorString(status), cudaGetErrorName(status));
  switch (status) {
    case cudaErrorMemoryAllocation:
      throw out_of_device_memory(what,
                                 "raise `micro_batches`, lower `batch_size`, or choose a device "
                                 "with more memory");
    case cudaErrorNoDevice:
      throw unusable(what,
                     "ask the scheduler for a GPU, see whether CUDA_VISIBLE_DEVICES hides "
                     "it, or set `device` to cpu");
    case cudaErrorInsufficientDriver:
    case cudaErrorSystemDriverMismatch:
      throw without_driver_for(what);
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorUnsupportedPtxVersion:
    case cudaErrorInvalidPtx:
    case cudaErrorInvalidKernelImage:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorJitCompilationDisabled:
      throw without_kernels_for(what);
    case cudaErrorDevicesUnavailable:
    case cudaErrorSystemNotReady:
    case cudaErrorInitializationError:
    case cudaErrorCompatNotSupportedOnDevice:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsMaxClientsReached:
    case cudaErrorMpsMaxConnectionsReached:
    case cudaErrorDeviceNotLicensed:
    case cudaErrorStubLibrary:
      throw unusable(
          what,
          "see whether another process uses the GPU exclusively, ask the administrators of "
          "the host, or set `device` to cpu");
    case cudaErrorCallRequiresNewerDriver:
    case cudaErrorSharedObjectSymbolNotFound:
    case cudaErrorSharedObjectInitFailed:
    case cudaErrorOperatingSystem:
      throw unusable(
          what,
          "see whether the driver is new enough, its parts have one version (nvidia-smi), "
          "and the container or job may open /dev/nvidia*, or set `device` to cpu");
    case cudaErrorStreamCaptureUnsupported:
    case cudaErrorStreamCaptureInvalidated:
    case cudaErrorStreamCaptureMerge:
    case cudaErrorStreamCaptureUnmatched:
    case cudaErrorStreamCaptureUnjoined:
    case cudaErrorStreamCaptureIsolation:
    case cudaErrorStreamCaptureImplicit:
    case cudaErrorCapturedEvent:
    case cudaErrorStreamCaptureWrongThread:
      throw Error(ErrorCode::unsupported, what, "set `cuda_graphs` to false");
    case cudaErrorInvalidValue:
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidMemcpyDirection:
    case cudaErrorInvalidPitchValue:
    case cudaErrorIllegalState:
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidResourceHandle:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorNotSupported:
      throw Error(ErrorCode::internal,
                  fmt::format("{} at {}:{}", what, where.file_name(), where.line()));
    case cudaErrorIllegalAddress:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorIllegalInstruction:
    case cudaErrorInvalidPc:
    case cudaErrorHardwareStackError:
    case cudaErrorAssert:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
      throw context_lost(
          fmt::format("{} at {}:{}", what, where.file_name(), where.line()), "a kernel failed",
          "if it happens again, run under compute-sanitizer, which names the kernel, and "
          "report what it says");
    default:
      throw context_lost(what, "the GPU or its link may have failed",
                         "look for Xid errors (dmesg, nvidia-smi -q), and use another GPU or node");
  }
}

OutOfMemory out_of_device_memory(const std::string& what, std::string remedy) {
  int device = 0;
  cudaGetDevice(&device);
  return {fmt::format("out of memory on cuda:{}: {}", device, what), std::move(remedy)};
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
                "compute in f32");
}

}  // namespace troupe::cuda
