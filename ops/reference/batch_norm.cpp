#include <cmath>
#include <vector>

#include "ops/reference/dropout.h"
#include "ops/reference/kernels.h"
#include "ops/reference/norm_statistics.h"
#include "ops/reference/reorder.h"

namespace troupe::reference {
namespace {

// x [N, C, H, W] or [N, C] as N x C runs of `inner` elements.
struct Channels {
  explicit Channels(const Shape& shape)
      : samples(shape[0]), count(shape[1]), inner(shape.rank() == 4 ? shape[2] * shape[3] : 1) {}

  std::int64_t samples, count, inner;

  double elements() const { return static_cast<double>(samples * inner); }

  // Calls visit(element) for all elements of channel c.
  template <class Visit>
  void each(std::int64_t c, Visit visit) const {
    for (std::int64_t n = 0; n < samples; ++n)
      for (std::int64_t i = 0; i < inner; ++i) visit((n * count + c) * inner + i);
  }
};

// The affine map of one channel.
struct Norm {
  Norm(std::int64_t c, const Tensor& weights, const Tensor& biases, const ChannelMoments& moments,
       double epsilon)
      : weight(weights.data<double>()[c]),
        bias(biases.data<double>()[c]),
        mean(moments.mean.data<double>()[c]),
        inverse(1.0 / std::sqrt(moments.variance.data<double>()[c] + epsilon)) {}

  double weight, bias, mean, inverse;

  double normal(double x) const { return (x - mean) * inverse; }
  double operator()(double x) const { return normal(x) * weight + bias; }
};

// Dropout's factor of every element; empty where there is none.
std::vector<double> dropout_scales(const NormEpilogue& epilogue, std::int64_t elements) {
  std::vector<double> scales;
  if (epilogue.dropout == 0.0) return scales;
  DropoutScale scale(epilogue.dropout, epilogue.random);
  scales.reserve(static_cast<std::size_t>(elements));
  for (std::int64_t e = 0; e < elements; ++e) scales.push_back(scale(e));
  return scales;
}

// The memory of a tensor, looked up once for a loop; null for an undefined one.
double* elements_of(const Tensor& tensor) {
  return tensor.defined() ? tensor.data<double>() : nullptr;
}

double scale_of(const std::vector<double>& scales, std::int64_t e) {
  return scales.empty() ? 1.0 : scales[static_cast<std::size_t>(e)];
}

}  // namespace

ChannelMoments channel_moments(const Stream&, const Tensor& given, const Tensor&, const Tensor&,
                               double, Tensor& running_mean, Tensor& running_variance) {
  const Tensor x = row_major(given);
  const Channels channels(x.shape());
  ChannelMoments moments{Tensor::empty(Shape{channels.count}, DType::f64, x.device()),
                         Tensor::empty(Shape{channels.count}, DType::f64, x.device())};
  const double* from = x.data<double>();
  for (std::int64_t c = 0; c < channels.count; ++c) {
    double sum = 0, squares = 0;
    channels.each(c, [&](std::int64_t e) { sum += from[e]; });
    const double mean = sum / channels.elements();
    channels.each(c, [&](std::int64_t e) {
      const double distance = from[e] - mean;
      squares += distance * distance;
    });
    moments.mean.data<double>()[c] = mean;
    moments.variance.data<double>()[c] = squares / channels.elements();
  }
  write_statistics(moments, channels.elements(), running_mean, running_variance);
  return moments;
}

Tensor batch_norm(const Stream&, const Tensor& given, const Tensor& weight, const Tensor& bias,
                  const ChannelMoments& moments, double epsilon, const NormEpilogue& epilogue) {
  const Tensor x = row_major(given);
  const Tensor residual = epilogue.residual.defined() ? row_major(epilogue.residual) : Tensor();
  const Channels channels(x.shape());
  const auto scales = dropout_scales(epilogue, x.element_count());
  Tensor z = Tensor::empty(x.shape(), DType::f64, x.device());
  const double *from = x.data<double>(), *residuals = elements_of(residual);
  auto* to = z.data<double>();
  for (std::int64_t c = 0; c < channels.count; ++c) {
    const Norm norm(c, weight, bias, moments, epsilon);
    channels.each(c, [&](std::int64_t e) {
      double value = norm(from[e]);
      const double added = residuals != nullptr ? residuals[e] : 0;
      if (epilogue.residual_first) value += added;
      if (epilogue.relu && value < 0) value = 0;
      value *= scale_of(scales, e);
      if (!epilogue.residual_first && residuals != nullptr) value += added;
      to[e] = value;
    });
  }
  return in_layout(z, given.layout());
}

// With g the gradient of norm(x) = weight * n + bias, n = (x - mean) * inverse, over m elements:
// bias' = sum g, weight' = sum g n, x' = weight * inverse * (g - bias' / m - n * weight' / m);
// the last two terms are how mean and variance depend on x (Ioffe and Szegedy, section 3).
NormGradients batch_norm_backward(const Stream&, const Tensor& given_grad, const Tensor& given_x,
                                  const Tensor&, const Tensor& weight, const Tensor& bias,
                                  const ChannelMoments& moments, double epsilon,
                                  const NormEpilogue& epilogue, bool batch_moments,
                                  Tensor& weight_gradient, Tensor& bias_gradient) {
  const Tensor x = row_major(given_x), grad = row_major(given_grad);
  const bool relu_of_sum = epilogue.relu_of_sum();
  const Tensor residual = relu_of_sum ? row_major(epilogue.residual) : Tensor();
  const Channels channels(x.shape());
  const auto scales = dropout_scales(epilogue, x.element_count());
  Tensor x_grad = Tensor::empty(x.shape(), DType::f64, x.device());
  NormGradients result{{}, weight_gradient, bias_gradient, {}};
  for (Tensor* gradient : {&result.weight, &result.bias})
    if (!gradient->defined())
      *gradient = Tensor::empty(Shape{channels.count}, DType::f64, x.device());
  Tensor residual_grad;
  if (relu_of_sum) residual_grad = Tensor::empty(x.shape(), DType::f64, x.device());
  const double *from = x.data<double>(), *slopes = grad.data<double>(),
               *residuals = elements_of(residual);
  double *to = x_grad.data<double>(), *residual_to = elements_of(residual_grad);
  for (std::int64_t c = 0; c < channels.count; ++c) {
    const Norm norm(c, weight, bias, moments, epsilon);
    const auto norm_grad = [&](std::int64_t e) {
      const double added = residuals != nullptr ? residuals[e] : 0;
      const bool stops = epilogue.relu && norm(from[e]) + added <= 0;  // a NaN passes
      return !stops ? slopes[e] * scale_of(scales, e) : 0.0;
    };
    double bias_grad = 0, weight_grad = 0;
    channels.each(c, [&](std::int64_t e) {
      const double slope = norm_grad(e);
      bias_grad += slope;
      weight_grad += slope * norm.normal(from[e]);
      if (residual_to != nullptr) residual_to[e] = slope;
    });
    const double share = batch_moments ? 1.0 / channels.elements() : 0.0;
    channels.each(c, [&](std::int64_t e) {
      const double through_moments = share * (bias_grad + norm.normal(from[e]) * weight_grad);
      to[e] = norm.weight * norm.inverse * (norm_grad(e) - through_moments);
    });
    result.bias.data<double>()[c] = bias_grad;
    result.weight.data<double>()[c] = weight_grad;
  }
  result.x = in_layout(x_grad, given_x.layout());
  if (relu_of_sum) result.residual = in_layout(residual_grad, given_x.layout());
  return result;
}

}  // namespace troupe::reference
