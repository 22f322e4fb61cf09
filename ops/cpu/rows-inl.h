// Sums over rows of a few thousand elements, which several kernels share; compiled once for each
// instruction set. Include after hwy/foreach_target.h.

#if defined(TROUPE_OPS_CPU_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_OPS_CPU_ROWS_INL_H_
#undef TROUPE_OPS_CPU_ROWS_INL_H_
#else
#define TROUPE_OPS_CPU_ROWS_INL_H_
#endif

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// A sum over [0, count), where add(d, i, sum) returns the vector `sum` plus the terms from i on.
/// Four sums side by side, so that additions do not wait for each other. The order of additions
/// depends on the count and the width of the vectors only.
template <class Add>
HWY_INLINE double sum_of_row(std::int64_t count, const Add& add) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = add(d, i, s0);
    s1 = add(d, i + lanes, s1);
    s2 = add(d, i + 2 * lanes, s2);
    s3 = add(d, i + 3 * lanes, s3);
  }
  for (; i + lanes <= count; i += lanes) s0 = add(d, i, s0);
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  const hn::CappedTag<float, 1> single;
  for (; i < count; ++i) sum += hn::GetLane(add(single, i, hn::Zero(single)));
  return sum;
}

struct TwoSums {
  double first, second;
};

/// Two sums in one pass, where add(d, i, first, second) adds the terms from i on to its last two
/// arguments. Otherwise as sum_of_row.
template <class Add>
HWY_INLINE TwoSums two_sums_of_row(std::int64_t count, const Add& add) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a0 = hn::Zero(d), a1 = a0, b0 = a0, b1 = a0;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    add(d, i, a0, b0);
    add(d, i + lanes, a1, b1);
  }
  for (; i + lanes <= count; i += lanes) add(d, i, a0, b0);
  TwoSums sums{hn::GetLane(hn::SumOfLanes(d, hn::Add(a0, a1))),
               hn::GetLane(hn::SumOfLanes(d, hn::Add(b0, b1)))};
  const hn::CappedTag<float, 1> single;
  for (; i < count; ++i) {
    auto a = hn::Zero(single), b = a;
    add(single, i, a, b);
    sums.first += hn::GetLane(a);
    sums.second += hn::GetLane(b);
  }
  return sums;
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
