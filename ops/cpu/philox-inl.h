// Philox4x32-10 (runtime/random.h) for a vector of counters at once; the same bits.

#if defined(TROUPE_OPS_CPU_PHILOX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_OPS_CPU_PHILOX_INL_H_
#undef TROUPE_OPS_CPU_PHILOX_INL_H_
#else
#define TROUPE_OPS_CPU_PHILOX_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "runtime/random.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Words = hn::ScalableTag<std::uint32_t>;
using WordVector = hn::Vec<Words>;

/// The four numbers of as many blocks as a vector has lanes.
struct PhiloxBlocks {
  WordVector number[4];
};

/// low and high halves of the 64-bit products of a and the constant b.
HWY_INLINE void multiply_wide(WordVector a, std::uint32_t b, WordVector& low, WordVector& high) {
  const Words d;
#if HWY_TARGET == HWY_SCALAR
  const std::uint64_t product = std::uint64_t{hn::GetLane(a)} * b;
  low = hn::Set(d, static_cast<std::uint32_t>(product));
  high = hn::Set(d, static_cast<std::uint32_t>(product >> 32));
#else
  const hn::Repartition<std::uint64_t, Words> d64;
  const WordVector factor = hn::Set(d, b);
  const auto even = hn::MulEven(a, factor);
  const auto odd = hn::MulEven(hn::BitCast(d, hn::ShiftRight<32>(hn::BitCast(d64, a))), factor);
  low = hn::OddEven(hn::BitCast(d, hn::ShiftLeft<32>(odd)), hn::BitCast(d, even));
  high = hn::OddEven(hn::BitCast(d, odd), hn::BitCast(d, hn::ShiftRight<32>(even)));
#endif
}

HWY_INLINE PhiloxBlocks philox_blocks(const RandomKey& random, WordVector block) {
  const Words d;
  WordVector c0 = block, c1 = hn::Set(d, random.operation);
  WordVector c2 = hn::Set(d, random.micro_batch), c3 = hn::Set(d, random.step);
  auto k0 = static_cast<std::uint32_t>(random.seed);
  auto k1 = static_cast<std::uint32_t>(random.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    WordVector low0, high0, low1, high1;
    multiply_wide(c0, 0xD2511F53u, low0, high0);
    multiply_wide(c2, 0xCD9E8D57u, low1, high1);
    c0 = hn::Xor(hn::Xor(high1, c1), hn::Set(d, k0));
    c1 = low1;
    c2 = hn::Xor(hn::Xor(high0, c3), hn::Set(d, k1));
    c3 = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
