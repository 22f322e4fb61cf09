#include <cmath>
#include <vector>

#include "ops/reference/dropout.h"
#include "ops/reference/families.h"
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

// The affine map of one channel, in double precision.
template <class T>
struct Norm {
  Norm(std::int64_t c, const Tensor& weights, const Tensor& biases, const ChannelMoments& moments,
       double epsilon)
      : weight(weights.data<T>()[c]),
        bias(biases.data<T>()[c]),
        mean(moments.mean.data<T>()[c]),
        inverse(1.0 / std::sqrt(static_cast<double>(moments.variance.data<T>()[c]) + epsilon)) {}

  double weight, bias, mean, inverse;

  double normal(T x) const { return (static_cast<double>(x) - mean) * inverse; }
  double operator()(T x) const { return normal(x) * weight + bias; }
};

// Dropout's factor of every element; empty where there is none.
std::vector<double> dropout_scales(const NormEpilogue& epilogue, std::int64_t elements) {
  std::vector<double> scales;
  if (epilogue.dropout == 0.0f) return scales;
  DropoutScale scale(epilogue.dropout, epilogue.random);
  scales.reserve(static_cast<std::size_t>(elements));
  for (std::int64_t e = 0; e < elements; ++e) scales.push_back(scale(e));
  return scales;
}

double scale_of(const std::vector<double>& scales, std::int64_t e) {
  return scales.empty() ? 1.0 : scales[static_cast<std::size_t>(e)];
}

template <class T>
ChannelMoments channel_moments(const Stream&, const Tensor& given) {
  const Tensor x = row_major<T>(given);
  const Channels channels(x.shape());
  ChannelMoments moments{Tensor::empty(Shape{channels.count}, dtype_of<T>, x.device()),
                         Tensor::empty(Shape{channels.count}, dtype_of<T>, x.device())};
  for (std::int64_t c = 0; c < channels.count; ++c) {
    double sum = 0, squares = 0;
    channels.each(c, [&](std::int64_t e) { sum += x.data<T>()[e]; });
    const double mean = sum / channels.elements();
    channels.each(c, [&](std::int64_t e) {
      const double distance = x.data<T>()[e] - mean;
      squares += distance * distance;
    });
    moments.mean.data<T>()[c] = static_cast<T>(mean);
    moments.variance.data<T>()[c] = static_cast<T>(squares / channels.elements());
  }
  return moments;
}

template <class T>
Tensor batch_norm(const Stream&, const Tensor& given, const Tensor& weight, const Tensor& bias,
                  const ChannelMoments& moments, double epsilon, const NormEpilogue& epilogue) {
  const Tensor x = row_major<T>(given);
  const Tensor residual = epilogue.residual.defined() ? row_major<T>(epilogue.residual) : Tensor();
  const Channels channels(x.shape());
  const auto scales = dropout_scales(epilogue, x.element_count());
  Tensor z = Tensor::empty(x.shape(), dtype_of<T>, x.device());
  for (std::int64_t c = 0; c < channels.count; ++c) {
    const Norm<T> norm(c, weight, bias, moments, epsilon);
    channels.each(c, [&](std::int64_t e) {
      double value = norm(x.data<T>()[e]);
      if (epilogue.relu && value < 0) value = 0;
      value *= scale_of(scales, e);
      if (residual.defined()) value += residual.data<T>()[e];
      z.data<T>()[e] = static_cast<T>(value);
    });
  }
  return in_layout<T>(z, given.layout());
}

// With g the gradient of norm(x) = weight * n + bias, n = (x - mean) * inverse, over m elements:
// bias' = sum g, weight' = sum g n, x' = weight * inverse * (g - bias' / m - n * weight' / m);
// the last two terms are how mean and variance depend on x (Ioffe and Szegedy, section 3).
template <class T>
NormGradients batch_norm_backward(const Stream&, const Tensor& given_grad, const Tensor& given_x,
                                  const Tensor&, const Tensor& weight, const Tensor& bias,
                                  const ChannelMoments& moments, double epsilon,
                                  const NormEpilogue& epilogue, bool batch_moments) {
  const Tensor x = row_major<T>(given_x), grad = row_major<T>(given_grad);
  const Channels channels(x.shape());
  const auto scales = dropout_scales(epilogue, x.element_count());
  Tensor x_grad = Tensor::empty(x.shape(), dtype_of<T>, x.device());
  NormGradients result{{},
                       Tensor::empty(Shape{channels.count}, dtype_of<T>, x.device()),
                       Tensor::empty(Shape{channels.count}, dtype_of<T>, x.device())};
  for (std::int64_t c = 0; c < channels.count; ++c) {
    const Norm<T> norm(c, weight, bias, moments, epsilon);
    const auto norm_grad = [&](std::int64_t e) {
      const bool passes = !epilogue.relu || norm(x.data<T>()[e]) > 0;
      return passes ? static_cast<double>(grad.data<T>()[e]) * scale_of(scales, e) : 0.0;
    };
    double bias_grad = 0, weight_grad = 0;
    channels.each(c, [&](std::int64_t e) {
      bias_grad += norm_grad(e);
      weight_grad += norm_grad(e) * norm.normal(x.data<T>()[e]);
    });
    const double share = batch_moments ? 1.0 / channels.elements() : 0.0;
    channels.each(c, [&](std::int64_t e) {
      const double through_moments =
          share * (bias_grad + norm.normal(x.data<T>()[e]) * weight_grad);
      x_grad.data<T>()[e] =
          static_cast<T>(norm.weight * norm.inverse * (norm_grad(e) - through_moments));
    });
    result.bias.data<T>()[c] = static_cast<T>(bias_grad);
    result.weight.data<T>()[c] = static_cast<T>(weight_grad);
  }
  result.x = in_layout<T>(x_grad, given_x.layout());
  return result;
}

}  // namespace

template <class T>
void fill_batch_norm(KernelTable& table) {
  table.channel_moments = channel_moments<T>;
  table.batch_norm = batch_norm<T>;
  table.batch_norm_backward = batch_norm_backward<T>;
}

template void fill_batch_norm<float>(KernelTable&);
template void fill_batch_norm<double>(KernelTable&);

}  // namespace troupe::reference
