// The functions of ActivationFunction and their derivatives on vectors of f32; compiled once for
// each instruction set. Include after hwy/foreach_target.h. NaN stays NaN.

#if defined(TROUPE_OPS_CPU_ACTIVATION_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_OPS_CPU_ACTIVATION_INL_H_
#undef TROUPE_OPS_CPU_ACTIVATION_INL_H_
#else
#define TROUPE_OPS_CPU_ACTIVATION_INL_H_
#endif

#include "hwy/contrib/math/math-inl.h"
#include "ops/cpu/exponential-inl.h"
#include "ops/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// The logistic function, of NaN any number; from exp(-|x|), which does not overflow.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_of_number(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  const V e = exponential_of_negative(d, hn::Or(x, hn::SignBit(d)));
  const V numerator = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one);
  return hn::Div(numerator, hn::Add(one, e));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V tanh(D d, V x) {
  return nan_of(d, x, hn::Tanh(d, x));
}

/// The normal distribution at x, of NaN any numbers.
template <class V>
struct Normal {
  V cumulative;  ///< (1 + erf(x / sqrt(2))) / 2
  V density;     ///< exp(-x^2 / 2) / sqrt(2 pi)
};

/// With t = |x| and u = 3 / (t + 3), exp(t^2 / 2) times the tail beyond t is u p(1 - 2 u), where p
/// is a polynomial that was fitted for the least relative error, 5e-8, on [0, 14.3]; beyond, the
/// tail is 0 in f32. (The mapping of the half-line is that of M. Shepherd, J. Laframboise,
/// "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x", Mathematics of Computation 36, 1981.)
template <class D, class V = hn::Vec<D>>
HWY_INLINE Normal<V> normal(D d, V x) {
  const V one = hn::Set(d, 1.0f), three = hn::Set(d, 3.0f);
  const V u = hn::Div(three, hn::Add(hn::Abs(x), three));
  const V v = hn::NegMulAdd(hn::Set(d, 2.0f), u, one);
  V p = hn::MulAdd(hn::Set(d, -8.816379e-05f), v, hn::Set(d, -2.999742e-04f));
  p = hn::MulAdd(p, v, hn::Set(d, 3.5842697e-04f));
  p = hn::MulAdd(p, v, hn::Set(d, 2.3071887e-03f));
  p = hn::MulAdd(p, v, hn::Set(d, -3.4933481e-03f));
  p = hn::MulAdd(p, v, hn::Set(d, -1.575187e-02f));
  p = hn::MulAdd(p, v, hn::Set(d, 7.667313e-02f));
  p = hn::MulAdd(p, v, hn::Set(d, -1.6977744e-01f));
  p = hn::MulAdd(p, v, hn::Set(d, 2.430279e-01f));
  const V e = exponential_of_negative(d, hn::Mul(hn::Mul(x, hn::Set(d, -0.5f)), x));
  const V tail = hn::Mul(hn::Mul(u, p), e);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(d)), tail, hn::Sub(one, tail)),
          hn::Mul(e, hn::Set(d, 0.39894228040143268f))};
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

template <ActivationFunction function, class D, class V = hn::Vec<D>>
HWY_INLINE V activated(D d, V x) {
  if constexpr (function == ActivationFunction::sigmoid)
    return nan_of(d, x, sigmoid_of_number(d, x));
  if constexpr (function == ActivationFunction::tanh) return tanh(d, x);
  if constexpr (function == ActivationFunction::silu) return hn::Mul(x, sigmoid_of_number(d, x));
  if constexpr (function == ActivationFunction::gelu) return hn::Mul(x, normal(d, x).cumulative);
  if constexpr (function == ActivationFunction::gelu_tanh)
    return hn::Mul(x, sigmoid_of_number(d, gelu_tanh_argument(d, x)));
  if constexpr (function == ActivationFunction::hardsigmoid) return hardsigmoid(d, x);
  if constexpr (function == ActivationFunction::hardswish) return hn::Mul(x, hardsigmoid(d, x));
}

/// The derivative of x sigmoid(u) where u' = slope.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V gated_slope(D d, V x, V u, V slope) {
  const V s = sigmoid_of_number(d, u);
  return hn::MulAdd(hn::Mul(x, s), hn::Mul(hn::Sub(hn::Set(d, 1.0f), s), slope), s);
}

/// From what Activate saves.
template <ActivationFunction function, class D, class V = hn::Vec<D>>
HWY_INLINE V slope_of(D d, V saved) {
  const V one = hn::Set(d, 1.0f), three = hn::Set(d, 3.0f);
  if constexpr (function == ActivationFunction::sigmoid) return hn::Mul(saved, hn::Sub(one, saved));
  if constexpr (function == ActivationFunction::tanh) return hn::NegMulAdd(saved, saved, one);
  if constexpr (function == ActivationFunction::silu) return gated_slope(d, saved, saved, one);
  if constexpr (function == ActivationFunction::gelu) {
    const Normal<V> n = normal(d, saved);
    return hn::MulAdd(saved, n.density, n.cumulative);
  }
  if constexpr (function == ActivationFunction::gelu_tanh) {
    constexpr float k = 1.5957691216057308f;
    const V slope = hn::MulAdd(hn::Mul(saved, saved), hn::Set(d, 3 * k * 0.044715f), hn::Set(d, k));
    return gated_slope(d, saved, gelu_tanh_argument(d, saved), slope);
  }
  if constexpr (function == ActivationFunction::hardsigmoid)
    return hn::IfThenElseZero(hn::Lt(hn::Abs(saved), three), hn::Set(d, 1.0f / 6.0f));
  if constexpr (function == ActivationFunction::hardswish) {
    const V inner = hn::MulAdd(saved, hn::Set(d, 1.0f / 3.0f), hn::Set(d, 0.5f));
    const V outer = hn::IfThenElse(hn::Lt(saved, three), inner, one);
    return hn::IfThenZeroElse(hn::Le(saved, hn::Neg(three)), outer);
  }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
