// Loops that the vectorised kernels share; compiled once for each instruction set. Include after
// hwy/foreach_target.h.

#if defined(TROUPE_OPS_CPU_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_OPS_CPU_SIMD_INL_H_
#undef TROUPE_OPS_CPU_SIMD_INL_H_
#else
#define TROUPE_OPS_CPU_SIMD_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Calls f(d, i) for i in [0, count): with the widest vectors first, then with narrower ones for
/// the rest. `d` is the Highway tag that says how many elements of T from i on are meant.
template <class T = float, class F>
HWY_INLINE void for_lanes(std::int64_t count, const F& f) {
  const hn::ScalableTag<T> wide;
  const hn::CappedTag<T, 4> narrow;
  const hn::CappedTag<T, 1> single;
  const auto wide_lanes = static_cast<std::int64_t>(hn::Lanes(wide));
  const auto narrow_lanes = static_cast<std::int64_t>(hn::Lanes(narrow));
  std::int64_t i = 0;
  for (; i + wide_lanes <= count; i += wide_lanes) f(wide, i);
  for (; i + narrow_lanes <= count; i += narrow_lanes) f(narrow, i);
  for (; i < count; ++i) f(single, i);
}

/// Whether coefficients are the same at all multiples of the vector width: then kernels load them
/// once, from place 0 of the tile, and keep them in registers.
template <class T>
HWY_INLINE bool one_vector_repeats(std::int64_t channels) {
  return static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<T>())) % channels == 0;
}

template <class T, bool repeats, class F>
HWY_INLINE void for_tiles_as(std::int64_t length, std::int64_t period, const F& f) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + period <= length; i += period)
    for (std::int64_t p = 0; p < period; p += 4 * lanes)
      for (std::int64_t k = 0; k < 4 * lanes; k += lanes) f(d, i + p + k, repeats ? 0 : p + k);
  for_lanes<T>(length - i, [&](auto tag, std::int64_t p) HWY_ATTR { f(tag, i + p, p); });
}

/// Calls f(d, i, p) for the elements [0, length) of a piece, where p is the place of element i's
/// coefficients in the tile (see Panel; period is a multiple of 64).
template <class T = float, class F>
HWY_INLINE void for_tiles(std::int64_t length, std::int64_t period, std::int64_t channels,
                          const F& f) {
  if (one_vector_repeats<T>(channels))
    for_tiles_as<T, true>(length, period, f);
  else
    for_tiles_as<T, false>(length, period, f);
}

/// v < 0 becomes 0; NaN stays NaN, as in PyTorch.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V relu(D d, V v) {
  return hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v);
}

/// relu's gradient: 0 where y, its output or input, is at most 0, else `gradient`.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V relu_gradient(D d, V y, V gradient) {
  return hn::IfThenZeroElse(hn::Le(y, hn::Zero(d)), gradient);
}

/// reduce_piece sums blocks of this many rows and adds each block's sum to the total. In f32, the
/// error of a sum of n rows then grows with block_rows + n / block_rows instead of n.
inline constexpr std::int64_t block_rows = 16;

/// The two sums of four vectors side by side.
template <class T>
struct SumVectors {
  hn::Vec<hn::ScalableTag<T>> a0, a1, a2, a3, b0, b1, b2, b3;
};

template <class T>
HWY_INLINE SumVectors<T> zero_sums() {
  const auto zero = hn::Zero(hn::ScalableTag<T>());
  return {zero, zero, zero, zero, zero, zero, zero, zero};
}

template <class T>
HWY_INLINE void add_sums(SumVectors<T>& to, const SumVectors<T>& s) {
  to.a0 = hn::Add(to.a0, s.a0), to.b0 = hn::Add(to.b0, s.b0);
  to.a1 = hn::Add(to.a1, s.a1), to.b1 = hn::Add(to.b1, s.b1);
  to.a2 = hn::Add(to.a2, s.a2), to.b2 = hn::Add(to.b2, s.b2);
  to.a3 = hn::Add(to.a3, s.a3), to.b3 = hn::Add(to.b3, s.b3);
}

/// The sums over the whole periods of a piece, for the places p on of four vectors.
template <class T, bool repeats, class Step>
HWY_INLINE SumVectors<T> sum_column(std::int64_t whole, std::int64_t period, std::int64_t p,
                                    const Step& step) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t place = repeats ? 0 : p, next = repeats ? 0 : lanes;
  SumVectors<T> total = zero_sums<T>();
  for (std::int64_t i = p; i < whole;) {
    const std::int64_t stop = whole - i < block_rows * period ? whole : i + block_rows * period;
    SumVectors<T> s = zero_sums<T>();
    for (; i < stop; i += period) {
      step(d, i, place, s.a0, s.b0);
      step(d, i + lanes, place + next, s.a1, s.b1);
      step(d, i + 2 * lanes, place + 2 * next, s.a2, s.b2);
      step(d, i + 3 * lanes, place + 3 * next, s.a3, s.b3);
    }
    add_sums(total, s);
  }
  return total;
}

/// Two sums over the elements of a piece for each channel of its run. step(d, i, p, a, b) adds what
/// element i at tile place p contributes to the vectors a and b. The order of additions depends on
/// the length, the period and the width of the vectors only. `first` and `second` are scratch of
/// `period` elements each; the sums of the channels end in their first `channels` elements.
template <class T, class Step>
HWY_INLINE void reduce_piece(std::int64_t length, std::int64_t period, std::int64_t channels,
                             const Step& step, T* HWY_RESTRICT first, T* HWY_RESTRICT second) {
  const hn::ScalableTag<T> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t whole = length / period * period;
  for (std::int64_t p = 0; p < period; p += 4 * lanes) {
    const SumVectors<T> s = one_vector_repeats<T>(channels)
                                ? sum_column<T, true>(whole, period, p, step)
                                : sum_column<T, false>(whole, period, p, step);
    hn::StoreU(s.a0, d, first + p), hn::StoreU(s.b0, d, second + p);
    hn::StoreU(s.a1, d, first + p + lanes), hn::StoreU(s.b1, d, second + p + lanes);
    hn::StoreU(s.a2, d, first + p + 2 * lanes), hn::StoreU(s.b2, d, second + p + 2 * lanes);
    hn::StoreU(s.a3, d, first + p + 3 * lanes), hn::StoreU(s.b3, d, second + p + 3 * lanes);
  }
  for_lanes<T>(length - whole, [&](auto tag, std::int64_t p) HWY_ATTR {
    auto a = hn::LoadU(tag, first + p), b = hn::LoadU(tag, second + p);
    step(tag, whole + p, p, a, b);
    hn::StoreU(a, tag, first + p);
    hn::StoreU(b, tag, second + p);
  });
  // period / channels is a power of two: fold the places of the same channel pairwise.
  for (std::int64_t width = period / 2; width >= channels; width /= 2)
    for_lanes<T>(width, [&](auto tag, std::int64_t p) HWY_ATTR {
      const auto a = hn::Add(hn::LoadU(tag, first + p), hn::LoadU(tag, first + p + width));
      const auto b = hn::Add(hn::LoadU(tag, second + p), hn::LoadU(tag, second + p + width));
      hn::StoreU(a, tag, first + p);
      hn::StoreU(b, tag, second + p);
    });
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
