// What a failure of cuDNN or cuBLASLt means, and calls that find no memory beside the allocator's.

#include "ops/cuda/library_error.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "emulated.h"
#include "emulator/emulation.h"
#include "ops/cuda/error.h"
#include "ops/cuda/with_memory.h"
#include "ops/on_device.h"
#include "runtime/device/device_stream.h"
#include "runtime/error.h"

namespace troupe::testing {
namespace {

using cuda_on_cpu::Emulation;
using ::testing::AllOf;
using ::testing::HasSubstr;

Error error_of(const cuda::LibraryFailure& failure) {
  try {
    cuda::throw_error(failure);
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
    EXPECT_THAT(error.message(), HasSubstr("out of memory on cuda:0: ")) << "as the allocator's";
    return error;
  } catch (const Error& error) {
    return error;
  }
}

// Only of a lost context: other actors are replaced, or tried with less memory.
TEST(CudaError, IsOfALostDeviceWhereTheContextIsLost) {
  const auto code_of = [](cudaError_t status) {
    try {
      cuda::check(status, "run");
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::usage;
  };
  for (const cudaError_t status :
       {cudaErrorECCUncorrectable, cudaErrorNvlinkUncorrectable, cudaErrorIllegalAddress,
        cudaErrorLaunchTimeout, cudaErrorAssert, cudaErrorHardwareStackError,
        cudaErrorIllegalInstruction, cudaErrorMisalignedAddress, cudaErrorInvalidAddressSpace,
        cudaErrorInvalidPc, cudaErrorLaunchFailure, cudaErrorUnknown})
    EXPECT_EQ(code_of(status), ErrorCode::device_lost) << cudaGetErrorName(status);
  for (const cudaError_t status : {cudaErrorInvalidValue, cudaErrorInvalidConfiguration,
                                   cudaErrorInvalidResourceHandle, cudaErrorLaunchOutOfResources})
    EXPECT_EQ(code_of(status), ErrorCode::internal) << cudaGetErrorName(status);
  for (const cudaError_t status :
       {cudaErrorNoDevice, cudaErrorInsufficientDriver, cudaErrorNoKernelImageForDevice,
        cudaErrorDevicesUnavailable, cudaErrorOperatingSystem, cudaErrorStreamCaptureInvalidated})
    EXPECT_EQ(code_of(status), ErrorCode::unsupported) << cudaGetErrorName(status);
  EXPECT_EQ(code_of(cudaErrorMemoryAllocation), ErrorCode::out_of_memory);
}

constexpr const char* operation = "run a convolution of [1]";

TEST(CudaLibraryError, IsOutOfMemoryIfTheLibrarySaysSo) {
  const Error error = error_of({"cuDNN", operation, "CUDNN_STATUS_ALLOC_FAILED", true});
  EXPECT_THAT(error.what(), AllOf(HasSubstr("on cuda:0: cuDNN could not run a convolution of "
                                            "[1]: CUDNN_STATUS_ALLOC_FAILED"),
                                  HasSubstr("batch_size")));
}

TEST(CudaLibraryError, IsOutOfMemoryIfHardlyAnyIsLeft) {
  EmulatedStream stream;
  const Emulation emulation({.device_bytes = std::size_t{32} << 20});
  EXPECT_THAT(error_of({"cuDNN", operation, "CUDNN_STATUS_INTERNAL_ERROR"}).what(),
              AllOf(HasSubstr("out of memory on cuda:0: "), HasSubstr("of 32.0 MiB free")));
}

TEST(CudaLibraryError, NamesTheGraphsWhileOneIsCaptured) {
  EmulatedStream stream;
  DeviceStream& device = *device_stream(stream.get());
  device.begin_capture();
  const Error refused = error_of({"cuDNN", operation, "CUDNN_STATUS_NOT_SUPPORTED"});
  const Error full = error_of({"cuDNN", operation, "CUDNN_STATUS_ALLOC_FAILED", true});
  (void)device.end_capture();
  EXPECT_THAT(refused.remedy(), HasSubstr("set `cuda_graphs` to false, or install a cuDNN"));
  EXPECT_THAT(full.remedy(), HasSubstr("set `cuda_graphs` to false, or raise `micro_batches`"));
  EXPECT_THAT(error_of({"cuDNN", operation, "CUDNN_STATUS_NOT_SUPPORTED"}).remedy(),
              ::testing::Not(HasSubstr("cuda_graphs")));
}

TEST(CudaLibraryError, IsThatOfAContextThatIsLost) {
  EmulatedStream stream;
  const Emulation emulation({});
  Emulation::fail_after(1);
  Tensor x = Tensor::empty({3}, DType::f32, stream.get().device);
  kernels(stream.get().device, DType::f32).fill(stream.get(), 1.0, x);
  cudaDeviceSynchronize();
  const Error error = error_of({"cuBLASLt", "multiply", "an internal error", true});
  EXPECT_EQ(error.code(), ErrorCode::device_lost);
  EXPECT_THAT(error.what(),
              AllOf(HasSubstr("multiply (cuBLASLt answered: an internal error)"),
                    HasSubstr("cudaErrorIllegalAddress"), HasSubstr("only a new process")));
}

TEST(CudaLibraryError, IsElseOneOfTheLibrary) {
  const Error error = error_of({"cuDNN", operation, "CUDNN_STATUS_BAD_PARAM"});
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("CUDNN_STATUS_BAD_PARAM"), HasSubstr("a cuDNN that")));
}

// As in a container that may not open the GPU's files.
TEST(CudaError, OfADriverThatCannotStartIsNotThatOfALostGpu) {
  for (const cudaError_t status :
       {cudaErrorOperatingSystem, cudaErrorSharedObjectInitFailed,
        cudaErrorSharedObjectSymbolNotFound, cudaErrorCallRequiresNewerDriver}) {
    try {
      cuda::check(status, "count the devices");
      FAIL() << status;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_THAT(error.remedy(), HasSubstr("may open /dev/nvidia*, or set `device` to cpu"));
    }
  }
}

TEST(CudaError, IsNotTheAnswerOfTheNextCallToo) {
  EXPECT_THROW(cuda::check(cudaSetDevice(99), "use the device"), Error);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// A library allocates beside the allocator, whose free blocks it cannot have.
TEST(CudaLibraryError, IsTriedOnceMoreWithTheAllocatorsFreeBlocks) {
  EmulatedStream stream;
  constexpr std::size_t block = std::size_t{24} << 20;
  const Emulation emulation({.device_bytes = std::size_t{32} << 20});
  { const Tensor freed = Tensor::empty({block}, DType::u8, stream.get().device); }
  int calls = 0;
  void* taken = nullptr;
  const auto allocate = [&] {
    ++calls;
    if (cudaMalloc(&taken, block) != cudaSuccess)
      cuda::throw_error({"cuDNN", operation, "CUDNN_STATUS_ALLOC_FAILED", true});
    return calls;
  };
  EXPECT_EQ(cuda::with_memory(stream.get(), allocate), 2);
  void* held = taken;
  EXPECT_THROW(cuda::with_memory(stream.get(), allocate), OutOfMemory);
  EXPECT_EQ(calls, 4);
  cudaFree(held);
}

// CUDA loads the code of a kernel when it is launched for the first time.
TEST(CudaLaunch, IsTriedOnceMoreWithTheAllocatorsFreeBlocks) {
  EmulatedStream stream;
  constexpr std::size_t block = std::size_t{24} << 20;
  const Emulation emulation({.device_bytes = 2 * block, .code_bytes = block});
  const auto& cuda = kernels(stream.get().device, DType::f32);
  Tensor x = Tensor::empty({3}, DType::f32, stream.get().device);
  { const Tensor freed = Tensor::empty({block}, DType::u8, stream.get().device); }
  cuda.fill(stream.get(), 2.0, x);
  expect_near(stream, x, Tensor::from<double>({3}, std::vector(3, 2.0)), 0.0);
  const Tensor held = Tensor::empty({block}, DType::u8, stream.get().device);
  EXPECT_THROW(cuda.fill(stream.get(), 1.0, x), OutOfMemory);
}

}  // namespace
}  // namespace troupe::testing
