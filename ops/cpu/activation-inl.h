// The functions of Activation and their derivatives on vectors of f32; compiled once for each
// instruction set. Include after hwy/foreach_target.h. NaN stays NaN.

#if defined(TROUPE_OPS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_OPS_CPU_ACTIVATION_INL_H_
#undef TROUPE_OPS_CPU_ACTIVATION_INL_H_
#else
#define TROUPE_OPS_CPU_ACTIVATION_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

template <class D, class V = hn::Vec<D>>
HWY_INLINE V nan_of(D /*d*/, V x, V value) {
  return hn::IfThenElse(hn::Eq(x, x), value, x);
}

/// From exp(-|x|), which does not overflow.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = hn::Exp(d, hn::Neg(hn::Abs(x)));
  const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return nan_of(d, x, hn::Div(numerator, hn::Add(one, e)));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  return nan_of(d, x, hn::Tanh(d, x));
}

/// The normal distribution at x.
template <class V>
struct Normal {
  V cumulative;  ///< (1 + erf(x / sqrt(2))) / 2
  V density;     ///< exp(-x^2 / 2) / sqrt(2 pi)
};

/// With t = |x| and u = 3 / (t + 3), exp(t^2 / 2) times the tail beyond t is u p(1 - 2 u), where p
/// is a polynomial that was fitted for the least relative error, 5e-8, on [0, 14.3]; beyond, the
/// tail is 0 in f32. The square is taken with its rounding error, so that the tail is exact to a
/// few ulp. (The mapping of the half-line is that of M. Shepherd, J. Laframboise, "Chebyshev
/// approximation of (1 + 2x) exp(x^2) erfc x", Mathematics of Computation 36, 1981.)
template <class D, class V = hn::Vec<D>>
HWY_INLINE Normal<V> normal(D d, V x) {
  const V one = hn::Set(d, 1.0f), three = hn::Set(d, 3.0f), half = hn::Set(d, 0.5f);
  const V t = hn::Min(hn::Abs(x), hn::Set(d, 1e9f));
  const V u = hn::Div(three, hn::Add(t, three));
  const V v = hn::NegMulAdd(hn::Set(d, 2.0f), u, one);
  V p = hn::Set(d, -8.816379e-05f);
  p = hn::MulAdd(p, v, hn::Set(d, -2.999742e-04f));
  p = hn::MulAdd(p, v, hn::Set(d, 3.5842697e-04f));
  p = hn::MulAdd(p, v, hn::Set(d, 2.3071887e-03f));
  p = hn::MulAdd(p, v, hn::Set(d, -3.4933481e-03f));
  p = hn::MulAdd(p, v, hn::Set(d, -1.575187e-02f));
  p = hn::MulAdd(p, v, hn::Set(d, 7.667313e-02f));
  p = hn::MulAdd(p, v, hn::Set(d, -1.6977744e-01f));
  p = hn::MulAdd(p, v, hn::Set(d, 2.430279e-01f));
  const V square = hn::Mul(t, t), error = hn::MulSub(t, t, square);
  const V e = hn::Exp(d, hn::Neg(hn::Mul(half, square)));
  const V exponential = hn::NegMulAdd(e, hn::Mul(half, error), e);
  const V tail = hn::Mul(hn::Mul(u, p), exponential);
  const V cumulative = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail));
  return {nan_of(d, x, cumulative),
          nan_of(d, x, hn::Mul(exponential, hn::Set(d, 0.39894228040143268f)))};
}

/// sqrt(8 / pi) (x + 0.044715 x^3): gelu_tanh is x sigmoid of it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gelu_tanh_argument(D d, V x) {
  constexpr float k = 1.5957691216057308f;
  return hn::Mul(x, hn::MulAdd(hn::Mul(x, x), hn::Set(d, k * 0.044715f), hn::Set(d, k)));
}

/// min(max(x + 3, 0), 6) / 6
template <class D, class V = hn::Vec<D>>
HWY_INLINE V hardsigmoid(D d, V x) {
  const V raised = hn::Add(x, hn::Set(d, 3.0f)), six = hn::Set(d, 6.0f);
  const V positive = hn::IfThenZeroElse(hn::Lt(raised, hn::Zero(d)), raised);
  return hn::Mul(hn::IfThenElse(hn::Gt(positive, six), six, positive), hn::Set(d, 1.0f / 6.0f));
}

template <Activation function, class D, class V = hn::Vec<D>>
HWY_INLINE V activated(D d, V x) {
  if constexpr (function == Activation::sigmoid) return sigmoid(d, x);
  if constexpr (function == Activation::tanh) return tanh(d, x);
  if constexpr (function == Activation::silu) return hn::Mul(x, sigmoid(d, x));
  if constexpr (function == Activation::gelu) return hn::Mul(x, normal(d, x).cumulative);
  if constexpr (function == Activation::gelu_tanh)
    return hn::Mul(x, sigmoid(d, gelu_tanh_argument(d, x)));
  if constexpr (function == Activation::hardsigmoid) return hardsigmoid(d, x);
  if constexpr (function == Activation::hardswish) return hn::Mul(x, hardsigmoid(d, x));
}

/// The derivative of x sigmoid(u) where u' = slope.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gated_slope(D d, V x, V u, V slope) {
  const V s = sigmoid(d, u);
  return hn::MulAdd(hn::Mul(x, s), hn::Mul(hn::Sub(hn::Set(d, 1.0f), s), slope), s);
}

/// From what Activate saves.
template <Activation function, class D, class V = hn::Vec<D>>
HWY_INLINE V slope_of(D d, V saved) {
  const V one = hn::Set(d, 1.0f), three = hn::Set(d, 3.0f);
  if constexpr (function == Activation::sigmoid) return hn::Mul(saved, hn::Sub(one, saved));
  if constexpr (function == Activation::tanh) return hn::NegMulAdd(saved, saved, one);
  if constexpr (function == Activation::silu) return gated_slope(d, saved, saved, one);
  if constexpr (function == Activation::gelu) {
    const Normal<V> n = normal(d, saved);
    return hn::MulAdd(saved, n.density, n.cumulative);
  }
  if constexpr (function == Activation::gelu_tanh) {
    constexpr float k = 1.5957691216057308f;
    const V slope = hn::MulAdd(hn::Mul(saved, saved), hn::Set(d, 3 * k * 0.044715f), hn::Set(d, k));
    return gated_slope(d, saved, gelu_tanh_argument(d, saved), slope);
  }
  if constexpr (function == Activation::hardsigmoid)
    return hn::IfThenElseZero(hn::Lt(hn::Abs(saved), three), hn::Set(d, 1.0f / 6.0f));
  if constexpr (function == Activation::hardswish) {
    const V inner = hn::MulAdd(saved, hn::Set(d, 1.0f / 3.0f), hn::Set(d, 0.5f));
    const V outer = hn::IfThenElse(hn::Lt(saved, three), inner, one);
    return hn::IfThenZeroElse(hn::Le(saved, hn::Neg(three)), outer);
  }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
