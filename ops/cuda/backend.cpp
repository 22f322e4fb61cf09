#include "ops/cuda/backend.h"

#include <fmt/format.h>

#include <cstdlib>

#include "ops/cuda/blas.h"
#include "ops/cuda/dnn.h"
#include "ops/cuda/error.h"
#include "ops/cuda/graph.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/library.h"
#include "ops/cuda/pinned.h"
#include "ops/cuda/stream.h"
#include "ops/cuda/workspace.h"
#include "ops/widened.h"
#include "runtime/bytes_text.h"
#include "runtime/device/block_uses.h"
#include "runtime/tensor/out_of_memory.h"

namespace troupe::cuda {
namespace {

/// Kernels for tensors of any floating-point type: most read and write those of 16 bits as they
/// are, the others compute in f32. Those of weights and optimizers never get any.
constexpr KernelTable table = [] {
  KernelTable made{
#define TROUPE_KERNEL(name, signature) .name = cuda::name,
#include "ops/kernel_list.inc"
  };
#define TROUPE_WIDENED(name) made.name = widening<cuda::name>;
#include "ops/widened_kernels.inc"
  return made;
}();

void* allocate(std::size_t bytes) {
  void* block = nullptr;
  const cudaError_t status = cudaMalloc(&block, bytes);
  if (status != cudaErrorMemoryAllocation) {
    check(status, "allocate memory");
    return block;
  }
  cudaGetLastError();   // which would be the next launch's
  if (captures_here())  // the allocator would give back what it has cached, and wait for the device
    refuse_graph("while a CUDA graph is captured: " + bytes_text(bytes) + " requested");
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "query free memory");
  throw OutOfMemory(
      fmt::format("{} of {} free", bytes_text(free), bytes_text(total)),
      "raise `micro_batches`, lower `batch_size`, make the model smaller, see with "
      "nvidia-smi whether other processes use the GPU, or use a GPU with more memory");
}

void release(void* block, std::size_t) {
  if (captures_here()) return;  // the host is out of memory; to free it here would wait for itself
  const NoCapture lock;
  cudaDeviceSynchronize();  // kernels that use it may still run
  cudaFree(block);
}

std::string fingerprint() {
  cudaDeviceProp found{};
  check(cudaGetDeviceProperties(&found, 0), "query the properties of the device");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "query the driver's version");
  std::string all = fmt::format("{}, sm_{}{}, {} multiprocessors, driver for CUDA {}.{}, {}, {}",
                                found.name, found.major, found.minor, found.multiProcessorCount,
                                driver / 1000, driver % 1000 / 10, dnn_version(), blas_version());
  // Variables by which NVIDIA's libraries round otherwise than the stream asks for.
  for (const char* name : {"NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION",
                           "CUBLAS_EMULATE_DOUBLE_PRECISION", "CUBLAS_EMULATION_STRATEGY"})
    if (const char* value = std::getenv(name)) all += fmt::format(", {}={}", name, value);
  return all;
}

}  // namespace

const Backend& backend() {
  static constexpr Backend all{
      .name = "cuda",
      .allocator = [](std::int16_t index) -> CachingAllocator& {
        static auto* first =
            new CachingAllocator({&backend(), 0}, {.allocate = allocate, .release = release});
        check(index == 0 ? cudaSuccess : cudaErrorInvalidDevice, "use a device other than 0");
        return *first;
      },
      .kernels = [](DType dtype) -> const KernelTable* {
        return is_floating(dtype) ? &table : nullptr;
      },
      .multiplies =
          [](DType products) {
            const bool bf16 = products == DType::bf16 && compute_capability() >= 80;
            return products == DType::f32 || products == DType::f16 || bf16;
          },
      .has_tf32 = [] { return compute_capability() >= 80; },
      .take_scratch = [](std::int16_t) { return take_workspace_sizes(); },
      .fingerprint = fingerprint,
      .open_stream =
          [](std::int16_t index) {
            return open_stream({&backend(), index});
          },
      .block_uses = [](std::int16_t) -> BlockUses& {
        static auto* uses = new BlockUses;
        return *uses;
      },
      .host_allocator = [](std::int16_t) -> CachingAllocator& { return pinned_allocator(); }};
  return all;
}

}  // namespace troupe::cuda
