#include <cmath>

#include "contract_kernels.h"
#include "ops/cuda/launch.h"
#ifdef TROUPE_CUDA_EMULATOR
#include "emulator/emulation.h"
#endif

namespace troupe::testing {
namespace {

using cuda::Launch;

__global__ void ask(ThreadAnswers* answers) {
  __shared__ int shared[contract_threads];
  const int t = static_cast<int>(threadIdx.x + 8 * (threadIdx.y + 4 * threadIdx.z));
  const int block = static_cast<int>(blockIdx.x);
  constexpr unsigned all = 0xffffffffu;
  ThreadAnswers& a = answers[block * contract_threads + t];
  a.lane_5 = __shfl_sync(all, t, 5);
  a.xor_1 = __shfl_xor_sync(all, t, 1);
  a.down_3 = __shfl_down_sync(all, t, 3);
  a.up_3 = __shfl_up_sync(all, t, 3);
  a.ballot = __ballot_sync(all, t % 3 == 0);
  a.any = __any_sync(all, t == 40);
  a.all = __all_sync(all, t == 40);
  a.block_count = __syncthreads_count(t % 5 == 0);
  a.block_or = __syncthreads_or(t == 40);
  const std::uint32_t bits = contract_bits(t), next = contract_bits(t + 1);
  a.popc = __popc(bits);
  a.ffs = __ffs(static_cast<int>(bits));
  a.clz = __clz(static_cast<int>(bits));
  a.umulhi = __umulhi(bits, next);
  a.umul64hi = __umul64hi(static_cast<unsigned long long>(bits) << 20,
                          static_cast<unsigned long long>(next) << 20);
  shared[t] = block * 100 + t;
  __syncthreads();
  a.reversed = shared[contract_threads - 1 - t];
}

__global__ void count(int* counters, int* tickets) {
  const int t = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  tickets[atomicAdd(&counters[0], 1)] = 1;
  atomicCAS(&counters[1], 0, 5);
  atomicMax(&counters[2], t);
  atomicExch(&counters[3], 7);
}

__global__ void compute(Arithmetic a, int count) {
  const int i = static_cast<int>(cuda::first_index());
  if (i >= count) return;
  a.sums[i] = a.x[i] * a.y[i] + a.z[i];
  a.fused[i] = std::fma(a.x[i], a.y[i], a.z[i]);
  a.quotients[i] = a.x[i] / a.y[i];
  a.roots[i] = std::sqrt(std::abs(a.x[i]));
  a.tiny[i] = a.x[i] * 1e-38f * 1e-3f;
}

__global__ void nothing() {}
__global__ void write(int* at) { *at = 1; }

}  // namespace

void asks_threads(const Stream& stream, ThreadAnswers* answers) {
  Launch(stream, 2, dim3(8, 4, 2))(ask, answers);
}

void counts_atomically(const Stream& stream, int* counters, int* tickets) {
  Launch(stream, 4, 64)(count, counters, tickets);
}

void computes(const Stream& stream, const Arithmetic& arithmetic, int count) {
  Launch(stream, cuda::blocks_for(count), cuda::block_threads)(compute, arithmetic, count);
}

void launches_nothing(const Stream& stream, dim3 blocks, dim3 threads) {
  Launch(stream, blocks, threads)(nothing);
}

void accesses_no_memory(const Stream& stream) {
#ifdef TROUPE_CUDA_EMULATOR
  cuda_on_cpu::Emulation::fail_after(1);  // the kernel, which then is not run
#endif
  Launch(stream, 1, 32)(write, reinterpret_cast<int*>(std::uintptr_t{64}));
}

}  // namespace troupe::testing
