#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

/// The elements of a vector, or equal ones if it is undefined.
std::vector<double> elements_or(const Tensor& tensor, double otherwise, std::int64_t count) {
  if (!tensor.defined()) return std::vector<double>(static_cast<std::size_t>(count), otherwise);
  return {tensor.data<double>(), tensor.data<double>() + count};
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
  const auto slopes = elements_or(weight, 1.0, features),
             offsets = elements_or(bias, 0.0, features);
  for (std::int64_t row = 0; row < rows; ++row) {
    const double* from = x.data<double>() + row * features;
    double* to = output.y.data<double>() + row * features;
    double mean = 0, variance = 0;
    for (std::int64_t i = 0; i < features; ++i) mean += from[i];
    mean /= static_cast<double>(features);
    for (std::int64_t i = 0; i < features; ++i) variance += (from[i] - mean) * (from[i] - mean);
    const double inverse = 1 / std::sqrt(variance / static_cast<double>(features) + epsilon);
    for (std::int64_t i = 0; i < features; ++i) {
      const auto at = static_cast<std::size_t>(i);
      to[i] = (from[i] - mean) * inverse * slopes[at] + offsets[at];
    }
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
  const auto weight_grad = gradients.weight.elements<double>(),
             bias_grad = gradients.bias.elements<double>();
  std::ranges::fill(weight_grad, 0.0);
  std::ranges::fill(bias_grad, 0.0);
  const auto slopes = elements_or(weight, 1.0, features);
  for (std::int64_t row = 0; row < rows_of(x, features); ++row) {
    const double *from = x.data<double>() + row * features,
                 *given = grad.data<double>() + row * features;
    double* to = gradients.x.data<double>() + row * features;
    const double mean = output.mean.data<double>()[row];
    const double inverse = output.inverse_deviation.data<double>()[row];
    double sum = 0, product = 0;
    for (std::int64_t i = 0; i < features; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const double normalised = (from[i] - mean) * inverse;
      weight_grad[at] += given[i] * normalised;
      bias_grad[at] += given[i];
      sum += given[i] * slopes[at];
      product += given[i] * slopes[at] * normalised;
    }
    for (std::int64_t i = 0; i < features; ++i) {
      const double centred =
          given[i] * slopes[static_cast<std::size_t>(i)] * static_cast<double>(features) - sum -
          (from[i] - mean) * inverse * product;
      to[i] = centred * inverse / static_cast<double>(features);
    }
  }
  return gradients;
}

}  // namespace troupe::reference
