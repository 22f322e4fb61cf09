#include "ops/cpu/scratch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "ops/cpu/backend.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/processor.h"

namespace troupe::cpu {
namespace {

TEST(Scratch, HandsOutTheBlockThatWasUsedLast) {
  { const Scratch large(1 << 20); }  // enough for what follows
  void* first = nullptr;
  {
    Scratch scratch(1000);
    first = scratch.data();
  }
  EXPECT_EQ(Scratch(1 << 20).data(), first);
  EXPECT_EQ(Scratch(10).data(), first);
}

TEST(Scratch, GivesEachCallItsOwnAlignedMemory) {
  Scratch a(100), b(1 << 16);
  EXPECT_NE(a.data(), b.data());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 64, 0u);
  std::memset(a.data(), 1, 100);
  std::memset(b.data(), 2, 1 << 16);
  EXPECT_EQ(static_cast<char*>(a.data())[99], 1);
}

TEST(Scratch, GrowsWhenALaterCallWishesForMore) {
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 24); bytes *= 4) {
    Scratch scratch(bytes);
    std::memset(scratch.data(), 3, bytes);
  }
}

TEST(Scratch, IsNothingForNoBytes) { EXPECT_EQ(Scratch(0).data(), nullptr); }

TEST(Scratch, TheBackendKnowsTheLargestRequestOfAKernel) {
  const auto peak_of = [](std::int64_t channels) {
    const Stream stream;
    const auto kernel = convolution({.in_channels = channels,
                                     .out_channels = channels,
                                     .padding_h = 1,
                                     .padding_w = 1,
                                     .algorithm = ConvolutionAlgorithm::winograd});
    kernel->use_weights(stream, Tensor::zeros({channels, channels, 3, 3}),
                        Tensor::zeros({channels}), 1);
    (void)cpu_backend().take_scratch(0);
    kernel->forward(stream, Tensor::zeros({1, channels, 8, 8}));
    return *cpu_backend().take_scratch(0).rbegin();
  };
  if (!has_avx512()) GTEST_SKIP() << "Winograd, which borrows memory, is for AVX-512";
  const std::size_t small = peak_of(16), large = peak_of(64);
  EXPECT_GT(small, 0u);
  EXPECT_GT(large, small);
  EXPECT_EQ(peak_of(16), small) << "of the kernels since the last call";
  EXPECT_EQ(*cpu_backend().take_scratch(0).rbegin(), 0u);
}

}  // namespace
}  // namespace troupe::cpu
