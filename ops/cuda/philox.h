#pragma once
// The random numbers of runtime/random.h in kernels: the same bits.

#include <cmath>
#include <cstdint>

#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"
#include "runtime/random.h"

namespace troupe::cuda {

/// A RandomKey of a kernel. Work that is repeated reads step and micro-batch when it runs.
struct KernelKey {
  RandomKey key;
  const std::uint32_t* repeated;  ///< DeviceStream::repeated_key; null: those of `key`

  __device__ std::uint32_t step() const { return repeated ? repeated[0] : key.step; }
  __device__ std::uint32_t micro_batch() const { return repeated ? repeated[1] : key.micro_batch; }
};
inline KernelKey kernel_key(const Stream& stream, const RandomKey& key) {
  return {key, input<std::uint32_t>(stream, device_stream(stream)->repeated_key())};
}

/// RandomKey::block: element e of a tensor takes number e % 4 of block e / 4.
__device__ inline Pack<std::uint32_t, 4> philox_block(const KernelKey& random,
                                                      std::uint32_t block) {
  std::uint32_t c0 = block, c1 = random.key.operation, c2 = random.micro_batch(),
                c3 = random.step();
  auto k0 = static_cast<std::uint32_t>(random.key.seed);
  auto k1 = static_cast<std::uint32_t>(random.key.seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = std::uint64_t{0xD2511F53u} * c0;
    const std::uint64_t p1 = std::uint64_t{0xCD9E8D57u} * c2;
    c0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(p1);
    c2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The number of one element, counted in logical (N, C, H, W) order.
__device__ inline std::uint32_t philox_number(const KernelKey& random, std::int64_t element) {
  const Pack<std::uint32_t, 4> numbers =
      philox_block(random, static_cast<std::uint32_t>(element / 4));
  const int place = static_cast<int>(element % 4);  // without an array that is indexed at run time
  const std::uint32_t low = place == 0 ? numbers.at[0] : numbers.at[1];
  const std::uint32_t high = place == 2 ? numbers.at[2] : numbers.at[3];
  return place < 2 ? low : high;
}

/// A number below it drops its element: uniform_float(bits) < p <=> bits < ceil(p 2^24) 2^8, for
/// 0 <= p < 1.
inline std::uint32_t drop_threshold(double probability) {
  return static_cast<std::uint32_t>(std::ceil(static_cast<float>(probability) * 0x1p24f)) << 8;
}

}  // namespace troupe::cuda
