#include "ops/cuda/channel_kernels.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_checks.h"
#include "ops/cuda/rows.h"

namespace troupe::cuda {
namespace {

template <class T>
struct LayerNormRows {
  const T *x, *grad;            ///< grad: backward
  const T *weight, *bias;       ///< null: none
  T *mean, *inverse_deviation;  ///< written forward, read backward
  T* to;                        ///< y or dx
  std::int64_t rows, features;
  double epsilon;

  __device__ T slope(std::int64_t i) const { return weight ? weight[i] : T(1); }
};

template <class Team, class T>
__global__ void normalise_rows(LayerNormRows<T> n) {
  const auto count = static_cast<double>(n.features);
  for (std::int64_t row = Team::first_row(); row < n.rows; row += Team::row_step()) {
    const T* x = n.x + row * n.features;
    T* y = n.to + row * n.features;
    T sum = 0, squares = 0;
    for (std::int64_t i = Team::rank(); i < n.features; i += Team::size) sum += x[i];
    const T mean = static_cast<T>(sum_of_team<Team>(sum) / count);
    for (std::int64_t i = Team::rank(); i < n.features; i += Team::size)
      squares = std::fma(x[i] - mean, x[i] - mean, squares);
    const double variance = sum_of_team<Team>(squares) / count;
    const T inverse = static_cast<T>(1.0 / std::sqrt(variance + n.epsilon));
    for (std::int64_t i = Team::rank(); i < n.features; i += Team::size)
      y[i] = std::fma((x[i] - mean) * inverse, n.slope(i), n.bias ? n.bias[i] : T(0));
    if (Team::rank() == 0) n.mean[row] = mean;
    if (Team::rank() == 0) n.inverse_deviation[row] = inverse;
  }
}

/// With the normalised row n, and e = grad * weight: dx = (e - mean(e) - n mean(e n)) / deviation.
template <class Team, class T>
__global__ void input_gradient_rows(LayerNormRows<T> n) {
  const auto count = static_cast<double>(n.features);
  for (std::int64_t row = Team::first_row(); row < n.rows; row += Team::row_step()) {
    const T *x = n.x + row * n.features, *grad = n.grad + row * n.features;
    T* dx = n.to + row * n.features;
    const T mean = n.mean[row], inverse = n.inverse_deviation[row];
    T sum = 0, product = 0;
    for (std::int64_t i = Team::rank(); i < n.features; i += Team::size) {
      const T e = grad[i] * n.slope(i);
      sum += e;
      product = std::fma(e, (x[i] - mean) * inverse, product);
    }
    const T mean_gradient = static_cast<T>(sum_of_team<Team>(sum) / count);
    const T mean_product = static_cast<T>(sum_of_team<Team>(product) / count);
    for (std::int64_t i = Team::rank(); i < n.features; i += Team::size) {
      const T even = grad[i] * n.slope(i) - mean_gradient;
      dx[i] = std::fma(-(x[i] - mean) * inverse, mean_product, even) * inverse;
    }
  }
}

/// Sums over the rows, of each feature as of a channel: of grad and of its product with the
/// normalised x.
template <class T>
struct ParameterSums {
  static constexpr int ahead = 2;
  const T *x, *grad, *mean, *inverse_deviation;

  template <int N>
  struct Loaded {
    Pack<T, N> x, grad;
    T mean, inverse;
  };
  template <int N>
  __device__ Loaded<N> load(std::int64_t e, std::int64_t row) const {
    return {*reinterpret_cast<const Pack<T, N>*>(x + e),
            *reinterpret_cast<const Pack<T, N>*>(grad + e), mean[row], inverse_deviation[row]};
  }
  template <int N>
  __device__ void store(std::int64_t, const Loaded<N>&) const {}

  struct Part {
    T sum, product;

    template <int N>
    __device__ void add(const Loaded<N>& in, int j) {
      sum += in.grad.at[j];
      product = std::fma(in.grad.at[j], (in.x.at[j] - in.mean) * in.inverse, product);
    }
    __device__ ChannelSums sums() const {
      return {static_cast<double>(sum), static_cast<double>(product)};
    }
  };
  __device__ Part part(std::int64_t) const { return {T(0), T(0)}; }
};

template <class T>
struct WriteParameterGradients {
  T *weight, *bias;

  __device__ void finish(std::int64_t feature, const ChannelSums& sums) const {
    bias[feature] = static_cast<T>(sums.first);
    weight[feature] = static_cast<T>(sums.second);
  }
};

}  // namespace

LayerNormOutput layer_norm(const Stream& stream, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, std::int64_t features, double epsilon) {
  const char* kernel = "layer_norm";
  const std::int64_t rows = rows_of(kernel, x, features);
  if (weight.defined()) check_vector(kernel, "the weight", weight, features, x.dtype());
  if (bias.defined()) check_vector(kernel, "the bias", bias, features, x.dtype());
  LayerNormOutput to{result_like(stream, x), result(stream, {rows}, x.dtype()),
                     result(stream, {rows}, x.dtype())};
  visit_float(x.dtype(), [&]<class T>(T) {
    const LayerNormRows<T> n{.x = input<T>(stream, x),
                             .grad = nullptr,
                             .weight = input<T>(stream, weight),
                             .bias = input<T>(stream, bias),
                             .mean = output<T>(stream, to.mean),
                             .inverse_deviation = output<T>(stream, to.inverse_deviation),
                             .to = output<T>(stream, to.y),
                             .rows = rows,
                             .features = features,
                             .epsilon = epsilon};
    for_rows(stream, rows, features,
             [&]<class Team>(Team, const Launch& launch) { launch(normalise_rows<Team, T>, n); });
  });
  return to;
}

// Two passes over x and grad: one by rows, one by features.
NormGradients layer_norm_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                                  const Tensor& weight, const LayerNormOutput& saved,
                                  std::int64_t features) {
  const char* kernel = "layer_norm_backward";
  check_alike(kernel, x, grad);
  const std::int64_t rows = rows_of(kernel, x, features);
  if (weight.defined()) check_vector(kernel, "the weight", weight, features, x.dtype());
  check_vector(kernel, "the mean", saved.mean, rows, x.dtype());
  check_vector(kernel, "the deviation", saved.inverse_deviation, rows, x.dtype());
  NormGradients gradients{result_like(stream, x),
                          result(stream, {features}, x.dtype()),
                          result(stream, {features}, x.dtype()),
                          {}};
  visit_float(x.dtype(), [&]<class T>(T) {
    const LayerNormRows<T> n{.x = input<T>(stream, x),
                             .grad = input<T>(stream, grad),
                             .weight = input<T>(stream, weight),
                             .bias = nullptr,
                             .mean = output<T>(stream, saved.mean),
                             .inverse_deviation = output<T>(stream, saved.inverse_deviation),
                             .to = output<T>(stream, gradients.x),
                             .rows = rows,
                             .features = features,
                             .epsilon = 0};
    for_rows(stream, rows, features, [&]<class Team>(Team, const Launch& launch) {
      launch(input_gradient_rows<Team, T>, n);
    });
    sum_channels<T>(stream, Channels{rows, features, 1, 1},
                    ParameterSums<T>{n.x, n.grad, n.mean, n.inverse_deviation},
                    WriteParameterGradients<T>{output<T>(stream, gradients.weight),
                                               output<T>(stream, gradients.bias)},
                    n.x, n.grad);
  });
  return gradients;
}

}  // namespace troupe::cuda
