// CUDA's kernel language for a C++ compiler: kernels run on the CPU, their threads as fibers.
// For tests. What it cannot show: speed, real concurrency, the GPU's rounding of fast functions.
#pragma once
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <source_location>
#include <type_traits>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __constant__ static
#define __launch_bounds__(...)
// A block is on one OS thread from its beginning to its end.
#define __shared__ static thread_local

namespace cuda_on_cpu {

struct Thread {  // what a kernel sees of itself
  uint3 thread, block;
  dim3 block_dim, grid_dim;
  unsigned lane = 0, warp = 0, flat = 0;
};
extern thread_local Thread* self;

/// Where threads of a block meet. They throw nothing: what is wrong goes to report().
void sync_block();
int sync_block_count(int value);  ///< __syncthreads_count / _or / _and are made of it
/// All lanes of `mask` exchange up to 8 bytes; `from` of each lane gives whose it wants.
std::uint64_t exchange(unsigned mask, std::uint64_t bits, int from);
unsigned ballot(unsigned mask, bool value);
void* dynamic_shared();
void note_atomic(const void* address, std::size_t bytes);

struct Launch {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};
/// Runs a grid to its end on the calling thread.
void run(const Launch& launch, const std::function<void()>& kernel, const char* name = "kernel");

/// What Launch (ops/cuda/launch.h) calls.
void launch(cudaStream_t stream, dim3 blocks, dim3 threads, const std::source_location& where,
            std::function<void()> kernel);

struct Options {
  unsigned seed = 0;       ///< other than 0: threads and blocks go in a random order
  bool check_init = true;  ///< reading what nobody wrote is an error
};
Options& options();
void report(const char* format, ...);
int errors();  ///< reported so far

// Device memory, as the checker sees it. `op` numbers what a stream runs; `before(a, b)` says
// whether operation a has ended before b begins, whatever the timing.
void memory_begins(void* block, std::size_t bytes);
void memory_ends(void* block);
void begin_operation(std::uint32_t op);
void wrote(const void* address, std::size_t bytes);  ///< by a copy or a library call
void read(const void* address, std::size_t bytes);
extern bool (*before)(std::uint32_t, std::uint32_t);

template <class T>
T shuffle(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, from);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
}  // namespace cuda_on_cpu

#define threadIdx (cuda_on_cpu::self->thread)
#define blockIdx (cuda_on_cpu::self->block)
#define blockDim (cuda_on_cpu::self->block_dim)
#define gridDim (cuda_on_cpu::self->grid_dim)
#define warpSize 32

inline void __syncthreads() { cuda_on_cpu::sync_block(); }
inline int __syncthreads_count(int v) { return cuda_on_cpu::sync_block_count(v != 0); }
inline int __syncthreads_or(int v) { return cuda_on_cpu::sync_block_count(v != 0) != 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu) { cuda_on_cpu::exchange(mask, 0, -1); }
inline void __threadfence() {}
inline void __threadfence_block() {}
template <class T>
T __shfl_sync(unsigned m, T v, int from) {
  return cuda_on_cpu::shuffle(m, v, from & 31);
}
template <class T>
T __shfl_xor_sync(unsigned m, T v, int x) {
  return cuda_on_cpu::shuffle(m, v, int(cuda_on_cpu::self->lane) ^ x);
}
template <class T>
T __shfl_down_sync(unsigned m, T v, unsigned d) {
  const int lane = int(cuda_on_cpu::self->lane), from = lane + int(d);
  return cuda_on_cpu::shuffle(m, v, from < 32 ? from : lane);
}
template <class T>
T __shfl_up_sync(unsigned m, T v, unsigned d) {
  const int lane = int(cuda_on_cpu::self->lane), from = lane - int(d);
  return cuda_on_cpu::shuffle(m, v, from >= 0 ? from : lane);
}
inline unsigned __ballot_sync(unsigned m, int v) { return cuda_on_cpu::ballot(m, v != 0); }
inline int __any_sync(unsigned m, int v) { return __ballot_sync(m, v) != 0; }
inline int __all_sync(unsigned m, int v) { return __ballot_sync(m, !v) == 0; }
template <class T>
T __ldg(const T* p) {
  return *p;
}
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(unsigned(v)); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((std::uint64_t{a} * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)((static_cast<unsigned __int128>(a) * b) >> 64);
}

template <class T, class F>
T cpu_atomic(T* p, F&& next) {
  cuda_on_cpu::note_atomic(p, sizeof(T));
  T old, wanted;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do wanted = next(old);
  while (!__atomic_compare_exchange(p, &old, &wanted, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}
template <class T>
T atomicAdd(T* p, std::type_identity_t<T> v) {
  return cpu_atomic(p, [v](T o) { return T(o + v); });
}
template <class T>
T atomicMax(T* p, std::type_identity_t<T> v) {
  return cpu_atomic(p, [v](T o) { return o < v ? v : o; });
}
template <class T>
T atomicExch(T* p, std::type_identity_t<T> v) {
  return cpu_atomic(p, [v](T) { return v; });
}
template <class T>
T atomicCAS(T* p, std::type_identity_t<T> c, std::type_identity_t<T> v) {
  return cpu_atomic(p, [c, v](T o) { return o == c ? v : o; });
}
