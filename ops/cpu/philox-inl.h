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

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE PhiloxBlocks philox_blocks(const RandomKey& random, WordVector block) {
  const Words d;
  const auto numbers = random.block(hn::GetLane(block));
  return {{hn::Set(d, numbers[0]), hn::Set(d, numbers[1]), hn::Set(d, numbers[2]),
           hn::Set(d, numbers[3])}};
}

#else

using WideWords = hn::Repartition<std::uint64_t, Words>;

/// Counters in the lower halves of 64-bit lanes, where the products want them. The upper halves
/// hold remainders of the products, which are never read.
struct WideCounter {
  WordVector c0, c1, c2, c3;
};

HWY_INLINE WordVector upper_halves(WordVector v) {
  return hn::BitCast(Words(), hn::ShiftRight<32>(hn::BitCast(WideWords(), v)));
}

HWY_INLINE void philox_round(WideCounter& c, WordVector k0, WordVector k1) {
  const Words d;
  const auto p0 = hn::BitCast(d, hn::MulEven(c.c0, hn::Set(d, 0xD2511F53u)));
  const auto p1 = hn::BitCast(d, hn::MulEven(c.c2, hn::Set(d, 0xCD9E8D57u)));
  c = {hn::Xor3(upper_halves(p1), c.c1, k0), p1, hn::Xor3(upper_halves(p0), c.c3, k1), p0};
}

HWY_INLINE WordVector join(WordVector even, WordVector odd) {
  const WideWords d64;
  return hn::OddEven(hn::BitCast(Words(), hn::ShiftLeft<32>(hn::BitCast(d64, odd))), even);
}

HWY_INLINE PhiloxBlocks philox_blocks(const RandomKey& random, WordVector block) {
  const Words d;
  const auto c1 = hn::Set(d, random.operation), c2 = hn::Set(d, random.micro_batch);
  const auto c3 = hn::Set(d, random.step);
  WideCounter even{block, c1, c2, c3}, odd{upper_halves(block), c1, c2, c3};
  auto k0 = static_cast<std::uint32_t>(random.seed);
  auto k1 = static_cast<std::uint32_t>(random.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    philox_round(even, hn::Set(d, k0), hn::Set(d, k1));
    philox_round(odd, hn::Set(d, k0), hn::Set(d, k1));
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {
      {join(even.c0, odd.c0), join(even.c1, odd.c1), join(even.c2, odd.c2), join(even.c3, odd.c3)}};
}

#endif

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
