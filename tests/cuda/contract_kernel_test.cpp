// The language of kernels: lanes, warps, blocks, atomics, arithmetic.

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "contract.h"
#include "contract_kernels.h"
#include "emulated.h"
#include "ops/cuda/stream.h"

namespace troupe::testing {
namespace {

using ContractKernel = Contract;

template <class T>
std::vector<T> from_device(const Stream& stream, const DeviceInts& memory, std::size_t count) {
  const PinnedInts host(count * sizeof(T));
  EXPECT_EQ(cudaMemcpyAsync(host.get(), memory.get(), count * sizeof(T), cudaMemcpyDeviceToHost,
                            cuda::native(stream)),
            cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(cuda::native(stream)), cudaSuccess);
  const T* first = reinterpret_cast<const T*>(host.get());
  return {first, first + count};
}

TEST_F(ContractKernel, ThreadsMeetInWarpsOf32InTheOrderOfTheirNumbers) {
  const EmulatedStream stream;
  constexpr int threads = contract_threads;
  const DeviceInts memory(2 * threads * sizeof(ThreadAnswers));
  asks_threads(stream.get(), reinterpret_cast<ThreadAnswers*>(memory.get()));
  const auto answers = from_device<ThreadAnswers>(stream.get(), memory, 2 * threads);
  for (int i = 0; i < 2 * threads; ++i) {
    SCOPED_TRACE(i);
    const int block = i / threads, t = i % threads, warp = t - t % 32;
    const ThreadAnswers& a = answers[static_cast<std::size_t>(i)];
    EXPECT_EQ(a.xor_1, t ^ 1);
    unsigned ballot = 0;
    for (int l = 0; l < 32; ++l) ballot |= unsigned{(warp + l) % 3 == 0} << l;
    EXPECT_EQ(a.ballot, ballot);
    const std::uint32_t bits = contract_bits(t), next = contract_bits(t + 1);
    EXPECT_EQ(a.popc, std::popcount(bits));
    const auto product =
        static_cast<unsigned __int128>(std::uint64_t{bits} << 20) * (std::uint64_t{next} << 20);
    EXPECT_EQ(a.umul64hi, static_cast<std::uint64_t>(product >> 64));
    EXPECT_EQ(a.reversed, block * 100 + threads - 1 - t);
  }
}

// The bits of x86's SSE: IEEE's rounding of each operation, subnormal numbers included.
TEST_F(ContractKernel, ArithmeticRoundsAsTheCpus) {
  const EmulatedStream stream;
  constexpr int count = 1000;
  const DeviceInts memory(8 * count * sizeof(float));
  const PinnedInts given(3 * count * sizeof(float));
  float* numbers = reinterpret_cast<float*>(given.get());
  for (int i = 0; i < 3 * count; ++i)
    numbers[i] = static_cast<float>(contract_bits(i + 1) >> 8) * 0x1p-20f - 8.0f;
  const float *x = numbers, *y = x + count, *z = y + count;
  EXPECT_EQ(cudaMemcpyAsync(memory.get(), given.get(), 3 * count * sizeof(float),
                            cudaMemcpyHostToDevice, cuda::native(stream.get())),
            cudaSuccess);
  float* on_device = reinterpret_cast<float*>(memory.get());
  const auto part = [&](int which) { return on_device + which * count; };
  computes(stream.get(),
           {.x = part(0),
            .y = part(1),
            .z = part(2),
            .sums = part(3),
            .fused = part(4),
            .quotients = part(5),
            .roots = part(6),
            .tiny = part(7)},
           count);
  const auto found = from_device<float>(stream.get(), memory, 8 * count);
  int fused_differs = 0, subnormal = 0;
  for (int i = 0; i < count; ++i) {
    SCOPED_TRACE(i);
    const auto result = [&](int which) {
      return found[static_cast<std::size_t>(which * count + i)];
    };
    const volatile float product = x[i] * y[i];
    const float tiny = x[i] * 1e-38f * 1e-3f;
    EXPECT_EQ(result(3), product + z[i]);
    EXPECT_EQ(result(4), std::fma(x[i], y[i], z[i]));
    EXPECT_EQ(result(5), x[i] / y[i]);
    EXPECT_EQ(result(6), std::sqrt(std::abs(x[i])));
    EXPECT_EQ(result(7), tiny);
    fused_differs += result(3) != result(4);
    subnormal += std::fpclassify(tiny) == FP_SUBNORMAL;
  }
  EXPECT_GT(fused_differs, 100);
  EXPECT_GT(subnormal, 100);
}

}  // namespace
}  // namespace troupe::testing
