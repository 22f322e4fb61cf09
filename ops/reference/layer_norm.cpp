#include <algorithm>
#include <cmath>

#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

/// Its elements; null if it is undefined.
const double* elements_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<double>() : nullptr;
}

std::int64_t rows_of(const Tensor& x, std::int64_t features) {
  return features == 0 ? 0 : x.element_count() / features;
}

}  // namespace

LayerNormOutput layer_norm(const Stream&, const Tensor& x, const Tensor& weight, const Tensor& bias,
                           std::int64_t features, double epsilon) {
  const std::int64_t rows = rows_of(x, features);
  LayerNormOutput output{Tensor::empty(x.shape(), DType::f64, x.device()),
                         Tensor::empty({rows}, DType::f64, x.device()),
                         Tensor::empty({rows}, DType::f64, x.device())};
  const double *slopes = elements_of(weight), *offsets = elements_of(bias);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* from = x.data<double>() + row * features;
    double* to = output.y.data<double>() + row * features;
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < features; ++i) mean += from[i];
    mean /= static_cast<double>(features);
    for (std::int64_t i = 0; i < features; ++i) variance += (from[i] - mean) * (from[i] - mean);
    const double inverse = 1 / std::sqrt(variance / static_cast<double>(features) + epsilon);
    for (std::int64_t i = 0; i < features; ++i)
      to[i] =
          (from[i] - mean) * inverse * (slopes ? slopes[i] : 1.0) + (offsets ? offsets[i] : 0.0);
    output.mean.data<double>()[row] = mean;
    output.inverse_deviation.data<double>()[row] = inverse;
  }
  return output;
}

// With the normalised row n, and d = grad * weight:
// dx = (d - mean(d) - n mean(d n)) / deviation.
NormGradients layer_norm_backward(const Stream&, const Tensor& grad, const Tensor& x,
                                  const Tensor& weight, const LayerNormOutput& output,
                                  std::int64_t features) {
  NormGradients gradients{Tensor::empty(x.shape(), DType::f64, x.device()),
                          Tensor::empty({features}, DType::f64, x.device()),
                          Tensor::empty({features}, DType::f64, x.device()),
                          {}};
  std::ranges::fill(gradients.weight.elements<double>(), 0.0);
  std::ranges::fill(gradients.bias.elements<double>(), 0.0);
  double *weight_grad = gradients.weight.data<double>(), *bias_grad = gradients.bias.data<double>();
  const double* slopes = elements_of(weight);
  for (std::int64_t row = 0; row < rows_of(x, features); ++row) {
    const double *from = x.data<double>() + row * features,
                 *given = grad.data<double>() + row * features;
    double* to = gradients.x.data<double>() + row * features;
    const double mean = output.mean.data<double>()[row];
    const double inverse = output.inverse_deviation.data<double>()[row];
    double sum = 0, product = 0;
    for (std::int64_t i = 0; i < features; ++i) {
      const double normalised = (from[i] - mean) * inverse, slope = slopes ? slopes[i] : 1.0;
      weight_grad[i] += given[i] * normalised;
      bias_grad[i] += given[i];
      sum += given[i] * slope;
      product += given[i] * slope * normalised;
    }
    for (std::int64_t i = 0; i < features; ++i) {
      const double slope = slopes ? slopes[i] : 1.0;
      const double centred = given[i] * slope * static_cast<double>(features) - sum -
                             (from[i] - mean) * inverse * product;
      to[i] = centred * inverse / static_cast<double>(features);
    }
  }
  return gradients;
}

}  // namespace troupe::reference
