#pragma once
// Kernels for the contract tests.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/tensor/device.h"

namespace troupe::testing {

/// What one thread of a block of 8 x 4 x 2 threads found. Thread `t` counts x first, then y.
struct ThreadAnswers {
  int lane_5, xor_1, down_3, up_3;  ///< t of another lane of its warp
  unsigned ballot;                  ///< of t % 3 == 0
  int any, all;                     ///< of t == 40
  int block_count, block_or;        ///< in the whole block: of t % 5 == 0, and of t == 40
  int popc, ffs, clz;               ///< of contract_bits(t)
  unsigned umulhi;                  ///< of contract_bits(t) and contract_bits(t + 1)
  int reversed;                     ///< block * 100 + 63 - t, through shared memory
  unsigned long long umul64hi;      ///< of contract_bits(t) << 20 and contract_bits(t + 1) << 20
};
inline constexpr int contract_threads = 64;
__host__ __device__ constexpr std::uint32_t contract_bits(int t) {
  return t == 0 ? 0 : static_cast<std::uint32_t>(t) * 2'654'435'761u;
}

/// Writes the answers of two blocks, one behind the other.
void asks_threads(const Stream&, ThreadAnswers* answers);

/// Of 4 blocks of 64 threads: each adds 1 to counters[0] and marks tickets[what it was before];
/// exchanges and compares counters[1]; raises counters[2] to its number.
void counts_atomically(const Stream&, int* counters, int* tickets);

/// sums[i] = x[i] * y[i] + z[i], each rounded; fused[i] = the same, rounded once;
/// quotients[i] = x[i] / y[i]; roots[i] = the root of |x[i]|; tiny[i] = x[i] * 1e-38f * 1e-3f.
struct Arithmetic {
  const float *x, *y, *z;
  float *sums, *fused, *quotients, *roots, *tiny;
};
void computes(const Stream&, const Arithmetic&, int count);

/// One kernel of any form. Throws as Launch.
void launches_nothing(const Stream&, dim3 blocks, dim3 threads);

/// A kernel that loses the context: on the emulator by its options.
void accesses_no_memory(const Stream&);

}  // namespace troupe::testing
