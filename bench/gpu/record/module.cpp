// libtroupe_cuda_recorded.so: the part of the program for GPUs, on the emulator of tests/cuda,
// which records what a run gives to the device and computes nothing. Losses are 0.

#include "ops/cuda/backend.h"
#include "ops/cuda/library.h"
#include "ops/cuda/stream.h"
#include "recording.h"
#include "runtime/device/block_uses.h"
#include "runtime/tensor/backend.h"
#include "tests/cuda/emulator/emulation.h"

namespace troupe::recording {
namespace {

const DeviceMemory memory{.allocate = [](std::size_t bytes) -> void* {
                            void* block = nullptr;
                            return cudaMalloc(&block, bytes) == cudaSuccess ? block : nullptr;
                          },
                          .release = [](void* block, std::size_t) { cudaFree(block); }};

const Backend& backend() {
  static constexpr Backend all{.name = "cuda",
                               .allocator = [](std::int16_t) -> CachingAllocator& {
                                 static auto* only = new CachingAllocator({&backend(), 0}, memory);
                                 return *only;
                               },
                               .kernels = [](DType dtype) -> const KernelTable* {
                                 return dtype == DType::f32 || dtype == DType::f64 ? &table()
                                                                                   : nullptr;
                               },
                               .multiplies = [](DType) { return true; },  // nothing is multiplied
                               .has_tf32 = [] { return true; },
                               .take_scratch = [](std::int16_t) { return std::set<std::size_t>(); },
                               .fingerprint = [] { return std::string("recorded"); },
                               .open_stream =
                                   [](std::int16_t index) {
                                     return cuda::open_stream({&backend(), index});
                                   },
                               .block_uses = [](std::int16_t) -> BlockUses& {
                                 static auto* uses = new BlockUses;
                                 return *uses;
                               }};
  return all;
}

}  // namespace
}  // namespace troupe::recording

namespace troupe::cuda {

const Backend& backend() {
  static const auto* emulation = new cuda_on_cpu::Emulation({.computes = false});
  (void)emulation;
  return recording::backend();
}

}  // namespace troupe::cuda

extern "C" {
const troupe::GpuLibrary* troupe_cuda_library() { return &troupe::cuda::library(); }
const char* troupe_cuda_version() { return TROUPE_VERSION; }
}
