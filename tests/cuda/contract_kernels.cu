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
  const int t = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x);
  ThreadAnswers& a = answers[block * contract_threads + t];
  a.xor_1 = __shfl_xor_sync(0xffffffffu, t, 1);
  a.ballot = __ballot_sync(0xffffffffu, t % 3 == 0);
  const std::uint32_t bits = contract_bits(t), next = contract_bits(t + 1);
  a.popc = __popc(bits);
  a.umul64hi = __umul64hi(static_cast<unsigned long long>(bits) << 20,
                          static_cast<unsigned long long>(next) << 20);
  shared[t] = block * 100 + t;
  __syncthreads();
  a.reversed = shared[contract_threads - 1 - t];
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
  Launch(stream, 2, contract_threads)(ask, answers);
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
