// NaN stays NaN in all functions but the derivatives of hardsigmoid and hardswish.

#include <cmath>
#include <numbers>

#include "ops/cuda/kernels.h"
#include "ops/cuda/map.h"

namespace troupe::cuda {
namespace {

template <class T>
__device__ T logistic(T x) {
  return T(1) / (T(1) + std::exp(-x));
}
template <class T>
__device__ T cumulative_normal(T x) {
  return T(0.5) * std::erfc(-x * static_cast<T>(1 / std::numbers::sqrt2));
}
/// min(max(x + 3, 0), 6)
template <class T>
__device__ T clamped(T x) {
  const T raised = x + T(3);
  return raised < T(0) ? T(0) : raised > T(6) ? T(6) : raised;
}

constexpr double gelu_scale = 1.5957691216057308;  // sqrt(8 / pi)

/// gelu_tanh is x logistic of it.
template <class T>
__device__ T gelu_argument(T x) {
  return static_cast<T>(gelu_scale) * (x + T(0.044715) * x * x * x);
}
template <class T>
__device__ T gelu_argument_slope(T x) {
  return static_cast<T>(gelu_scale) * (T(1) + T(3 * 0.044715) * x * x);
}

/// The derivative of x logistic(u) where u' = slope.
template <class T>
__device__ T gated_slope(T x, T u, T slope) {
  const T s = logistic(u);
  return s + x * s * (T(1) - s) * slope;
}

template <class T, ActivationFunction function>
struct Value {
  __device__ T operator()(T x) const {
    using enum ActivationFunction;
    if constexpr (function == sigmoid) return logistic(x);
    if constexpr (function == tanh) return std::tanh(x);
    if constexpr (function == silu) return x * logistic(x);
    if constexpr (function == gelu) return x * cumulative_normal(x);
    if constexpr (function == gelu_tanh) return x * logistic(gelu_argument(x));
    if constexpr (function == hardsigmoid) return clamped(x) / T(6);
    if constexpr (function == hardswish) return x * clamped(x) / T(6);
  }
};

/// The gradient from what Activate saves.
template <class T, ActivationFunction function>
struct Gradient {
  __device__ T operator()(T saved, T grad) const { return grad * slope(saved); }

 private:
  static __device__ T slope(T saved) {
    using enum ActivationFunction;
    if constexpr (function == sigmoid) return saved * (T(1) - saved);
    if constexpr (function == tanh) return T(1) - saved * saved;
    if constexpr (function == silu) return gated_slope(saved, saved, T(1));
    if constexpr (function == gelu)
      return cumulative_normal(saved) +
             saved * std::exp(-saved * saved / T(2)) * static_cast<T>(0.3989422804014327);
    if constexpr (function == gelu_tanh)
      return gated_slope(saved, gelu_argument(saved), gelu_argument_slope(saved));
    if constexpr (function == hardsigmoid) return std::abs(saved) < T(3) ? T(1.0 / 6) : T(0);
    if constexpr (function == hardswish)
      return saved <= T(-3) ? T(0) : saved < T(3) ? saved / T(3) + T(0.5) : T(1);
  }
};

template <ActivationFunction>
struct Constant {};

/// Calls `f` with a Constant of the function.
template <class F>
void visit_function(ActivationFunction function, const F& f) {
  using enum ActivationFunction;
  switch (function) {
    case sigmoid:
      return f(Constant<sigmoid>());
    case tanh:
      return f(Constant<tanh>());
    case silu:
      return f(Constant<silu>());
    case gelu:
      return f(Constant<gelu>());
    case gelu_tanh:
      return f(Constant<gelu_tanh>());
    case hardsigmoid:
      return f(Constant<hardsigmoid>());
    case hardswish:
      return f(Constant<hardswish>());
  }
}

}  // namespace

Tensor activate(const Stream& stream, ActivationFunction function, const Tensor& x) {
  Tensor y = result_like(stream, x);
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    visit_function(function, [&]<ActivationFunction f>(Constant<f>) {
      map(stream, Value<T, f>(), x.element_count(), output<S>(stream, y), input<S>(stream, x));
    });
  });
  return y;
}

Tensor activate_backward(const Stream& stream, ActivationFunction function, const Tensor& saved,
                         const Tensor& grad) {
  check_alike("activate_backward", saved, grad);
  Tensor x_grad = result_like(stream, saved);
  visit_stored(saved.dtype(), [&]<class S, class T>(S, T) {
    visit_function(function, [&]<ActivationFunction f>(Constant<f>) {
      map(stream, Gradient<T, f>(), saved.element_count(), output<S>(stream, x_grad),
          input<S>(stream, saved), input<S>(stream, grad));
    });
  });
  return x_grad;
}

}  // namespace troupe::cuda
