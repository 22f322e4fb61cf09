#pragma once
// The language of the kernels. nvcc compiles them for a GPU, and g++ the same source for the
// tests' emulator (tests/cuda/emulator), which checks every access to memory. So kernels keep to
// what both have: no inline PTX, no atomics, no dynamic parallelism, no extended lambdas (function
// objects instead), shared memory of a size that is known when they are compiled, whole warps in
// each block. Nor does a block read what another block of the same kernel writes (no __threadfence,
// no last block that finishes the others' work): two kernels do that.

#ifdef TROUPE_CUDA_EMULATOR
#include "tests/cuda/emulator/cuda_on_cpu.h"
#else
#include <cuda_runtime.h>
#ifdef __clang__  // 16 warns of the attribute, which it does not know; it may copy the argument
#undef __grid_constant__
#define __grid_constant__
#endif
#endif

#include <algorithm>
#include <cstdint>
#include <source_location>
#include <tuple>
#include <type_traits>

#include "ops/cuda/error.h"
#include "ops/cuda/stream.h"
#include "ops/cuda/with_memory.h"

namespace troupe::cuda {

inline constexpr int warp_size = 32;
inline constexpr int block_threads = 256;  ///< of kernels that have no reason for another number

#ifdef TROUPE_CUDA_EMULATOR
inline constexpr std::int64_t most_blocks = 5;  // so that small tensors take several steps
#else
inline constexpr std::int64_t most_blocks = 16'384;  // fill the largest device several times
#endif

/// The number of blocks of a grid-stride loop over `count` elements: one iteration for each thread,
/// unless that takes more than `most_blocks`.
inline dim3 blocks_for(std::int64_t count, int threads = block_threads) {
  return dim3(static_cast<unsigned>(
      std::clamp<std::int64_t>((count + threads - 1) / threads, 1, most_blocks)));
}

/// Launches a kernel on a stream, which must outlive the Launch: `Launch(stream, blocks,
/// threads)(kernel, arguments...)`. If memory is out, it launches once more (with_memory.h). Throws
/// Error if CUDA refuses the launch; what fails later ends the stream's fences with an error.
class Launch {
 public:
  Launch(const Stream& stream, dim3 blocks, dim3 threads,
         std::source_location where = std::source_location::current())
      : stream_(stream), blocks_(blocks), threads_(threads), where_(where) {}

  template <class... Params, class... Args>
  void operator()(void (*kernel)(Params...), const Args&... args) const {
    std::tuple<Params...> values(args...);
    with_memory(stream_, [&] { check(launch(kernel, values), "launch a kernel", where_); });
  }

 private:
  template <class... Params>
  cudaError_t launch(void (*kernel)(Params...), std::tuple<Params...>& values) const {
#ifdef TROUPE_CUDA_EMULATOR
    return cuda_on_cpu::launch(native(stream_), blocks_, threads_, where_,
                               [kernel, values] { std::apply(kernel, values); });
#else
    return std::apply(
        [&](auto&... value) {
          void* pointers[] = {&value...};
          return cudaLaunchKernel(reinterpret_cast<const void*>(kernel), blocks_, threads_,
                                  pointers, 0, native(stream_));
        },
        values);
#endif
  }

  const Stream& stream_;
  dim3 blocks_, threads_;
  std::source_location where_;
};

/// The first element of this thread, and the threads of the grid: for loops
/// `for (i = first_index(); i < count; i += grid_threads())`.
__device__ inline std::int64_t first_index() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t grid_threads() { return std::int64_t{gridDim.x} * blockDim.x; }

/// N elements that are loaded and stored at once.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T at[N];
};
/// Elements in 16 bytes, the widest access of a thread.
template <class T>
inline constexpr int pack_width = 16 / static_cast<int>(sizeof(T));

/// The element type of shared memory for T: a type without default initialisers, since CUDA accepts
/// no others there.
template <class T>
using Unset = std::conditional_t<sizeof(T) == sizeof(std::uint16_t), std::uint16_t, T>;

template <class... T>
bool aligned_for_packs(const T*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % 16 == 0) && ...);
}

}  // namespace troupe::cuda
