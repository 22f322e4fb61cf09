#include <algorithm>
#include <cmath>
#include <numbers>

#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double cumulative_normal(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double clamped(double x) { return x < 0 ? 0.0 : x > 6 ? 6.0 : x; }  // a NaN stays one

// gelu_tanh is x sigmoid(argument).
const double argument_scale = std::sqrt(8 / std::numbers::pi);
double argument(double x) { return argument_scale * (x + 0.044715 * x * x * x); }
double argument_slope(double x) { return argument_scale * (1 + 3 * 0.044715 * x * x); }

double value_of(ActivationFunction function, double x) {
  switch (function) {
    case ActivationFunction::sigmoid:
      return sigmoid(x);
    case ActivationFunction::tanh:
      return std::tanh(x);
    case ActivationFunction::silu:
      return x * sigmoid(x);
    case ActivationFunction::gelu:
      return x * cumulative_normal(x);
    case ActivationFunction::gelu_tanh:
      return x * sigmoid(argument(x));
    case ActivationFunction::hardsigmoid:
      return clamped(x + 3) / 6;
    case ActivationFunction::hardswish:
      break;
  }
  return x * clamped(x + 3) / 6;
}

double gated_slope(double x, double u, double slope) {
  const double s = sigmoid(u);
  return s + x * s * (1 - s) * slope;
}

/// From the output of sigmoid and tanh, from the input of the others.
double slope_of(ActivationFunction function, double saved) {
  switch (function) {
    case ActivationFunction::sigmoid:
      return saved * (1 - saved);
    case ActivationFunction::tanh:
      return 1 - saved * saved;
    case ActivationFunction::silu:
      return gated_slope(saved, saved, 1);
    case ActivationFunction::gelu:
      return cumulative_normal(saved) +
             saved * std::exp(-saved * saved / 2) / std::sqrt(2 * std::numbers::pi);
    case ActivationFunction::gelu_tanh:
      return gated_slope(saved, argument(saved), argument_slope(saved));
    case ActivationFunction::hardsigmoid:
      return std::abs(saved) < 3 ? 1.0 / 6 : 0.0;
    case ActivationFunction::hardswish:
      break;
  }
  return saved <= -3 ? 0.0 : saved < 3 ? saved / 3 + 0.5 : 1.0;
}

}  // namespace

Tensor activate(const Stream&, ActivationFunction function, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), DType::f64, x.device(), x.layout());
  std::ranges::transform(x.elements<double>(), y.data<double>(),
                         [&](double value) { return value_of(function, value); });
  return y;
}

Tensor activate_backward(const Stream&, ActivationFunction function, const Tensor& saved,
                         const Tensor& grad) {
  Tensor x_grad = Tensor::empty(saved.shape(), DType::f64, saved.device(), saved.layout());
  std::ranges::transform(
      saved.elements<double>(), grad.elements<double>(), x_grad.data<double>(),
      [&](double kept, double gradient) { return gradient * slope_of(function, kept); });
  return x_grad;
}

}  // namespace troupe::reference
