#pragma once
// Kernels for the contract tests.

#include <cuda_runtime_api.h>

#include <cstdint>

#include "runtime/tensor/device.h"

namespace troupe::testing {

/// What thread `t` of a block found.
struct ThreadAnswers {
  int xor_1;                    ///< t of another lane of its warp
  unsigned ballot;              ///< of t % 3 == 0
  int popc;                     ///< of contract_bits(t)
  int reversed;                 ///< block * 100 + 63 - t, through shared memory
  unsigned long long umul64hi;  ///< of contract_bits(t) << 20 and contract_bits(t + 1) << 20
};
inline constexpr int contract_threads = 64;
__host__ __device__ constexpr std::uint32_t contract_bits(int t) {
  return t == 0 ? 0 : static_cast<std::uint32_t>(t) * 2'654'435'761u;
}

/// Writes the answers of two blocks, one behind the other.
void asks_threads(const Stream&, ThreadAnswers* answers);

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
