// CUDA's kernel language for a C++ compiler: kernels run on the CPU, their threads as fibers.
// For tests. What it cannot show: speed, real concurrency, the GPU's rounding of fast functions.
#pragma once
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __grid_constant__
#undef __launch_bounds__
#define __global__
#define __grid_constant__
#define __device__
#define __host__
#define __launch_bounds__(...)
// A block is on one OS thread from its beginning to its end.
#define __shared__ static thread_local

namespace cuda_on_cpu {

// What a thread of a kernel sees of itself. They are functions of the emulator, since kernels'
// accesses to memory are checked, and these are none.
uint3 thread_index();
uint3 block_index();
dim3 block_dim();
dim3 grid_dim();

using Where = std::source_location;

/// All threads of a block meet.
void sync_block(const Where& where);

enum class WarpOperation : std::uint8_t { barrier, shuffle, ballot };
/// The lanes of `mask` meet. In a shuffle each gets the bits of lane `from`; in a ballot, which
/// lanes' bits are not 0.
std::uint64_t meet_warp(WarpOperation operation, unsigned mask, std::uint64_t bits, int from);
int lane();

/// A kernel and its arguments.
struct Closure {
  std::shared_ptr<void> object;
  std::size_t bytes = 0;
  void (*call)(void* object) = nullptr;
};
cudaError_t launch(cudaStream_t stream, dim3 blocks, dim3 threads, const Where& where,
                   Closure kernel);

/// What Launch (ops/cuda/launch.h) calls instead of cudaLaunchKernel.
template <class F>
cudaError_t launch(cudaStream_t stream, dim3 blocks, dim3 threads, const Where& where, F kernel) {
  return launch(stream, blocks, threads, where,
                Closure{std::make_shared<F>(std::move(kernel)), sizeof(F),
                        [](void* object) { (*static_cast<F*>(object))(); }});
}

template <class T>
T shuffle(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = meet_warp(WarpOperation::shuffle, mask, bits, from);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace cuda_on_cpu

#define threadIdx (cuda_on_cpu::thread_index())
#define blockIdx (cuda_on_cpu::block_index())
#define blockDim (cuda_on_cpu::block_dim())
#define gridDim (cuda_on_cpu::grid_dim())

inline void __syncthreads(const cuda_on_cpu::Where& where = cuda_on_cpu::Where::current()) {
  cuda_on_cpu::sync_block(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  cuda_on_cpu::meet_warp(cuda_on_cpu::WarpOperation::barrier, mask, 0, 0);
}
// Not modelled: no block may wait for, or read, what another block of the same kernel writes.
// Two kernels do that.
void __threadfence() = delete;

template <class T>
T __shfl_xor_sync(unsigned m, T v, int x) {
  return cuda_on_cpu::shuffle(m, v, cuda_on_cpu::lane() ^ x);
}
inline unsigned __ballot_sync(unsigned m, int v) {
  return unsigned(cuda_on_cpu::meet_warp(cuda_on_cpu::WarpOperation::ballot, m, v != 0, 0));
}
inline void __stwb(uint4* to, uint4 value) { *to = value; }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((static_cast<unsigned __int128>(a) * b) >> 64);
}
