// exp of numbers up to 0 on vectors of f32; compiled once for each instruction set. Include after
// hwy/foreach_target.h.

#if defined(TROUPE_OPS_CPU_EXPONENTIAL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_OPS_CPU_EXPONENTIAL_INL_H_
#undef TROUPE_OPS_CPU_EXPONENTIAL_INL_H_
#else
#define TROUPE_OPS_CPU_EXPONENTIAL_INL_H_
#endif

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// `value`, but x where x is NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V nan_of(D /*d*/, V x, V value) {
  return hn::IfThenElse(hn::Eq(x, x), value, x);
}

/// exp(x) for x <= 0 to two units of the last place; 0 below -87.3, where the result would not be a
/// normal number. Of NaN any number (see nan_of). About half as many instructions as Highway's Exp,
/// which accepts all numbers.
///
/// x = n ln 2 + r with a whole n and |r| <= ln 2 / 2. Adding 1.5 * 2^23 rounds to whole numbers and
/// leaves n in the low bits, from where it goes to the exponent. The polynomial was fitted for the
/// least relative error, 3e-9.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exponential_of_negative(D d, V x) {
  const hn::RebindToSigned<D> integers;
  const V rounding = hn::Set(d, 12582912.0f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 1.44269504f), rounding);
  const V n = hn::Sub(shifted, rounding);
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  V p = hn::MulAdd(hn::Set(d, 0.0013814539f), r, hn::Set(d, 0.008368745f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.04166839f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.16666521f));
  p = hn::MulAdd(p, r, hn::Set(d, 0.49999994f));
  p = hn::MulAdd(p, hn::Mul(r, r), r);
  p = hn::Add(p, hn::Set(d, 1.0f));
  const auto exponent = hn::ShiftLeft<23>(hn::BitCast(integers, shifted));
  const V result = hn::BitCast(d, hn::Add(hn::BitCast(integers, p), exponent));
  return hn::IfThenElseZero(hn::Ge(x, hn::Set(d, -87.3f)), result);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
