#include "ops/cpu/layer_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/cpu/add_up.h"
#include "ops/cpu/checks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"
#include "runtime/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/layer_norm.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

void normalise_row(const LayerNormRows& n, std::int64_t row) {
  const float* HWY_RESTRICT x = n.x + row * n.features;
  float* HWY_RESTRICT y = n.y + row * n.features;
  const auto count = static_cast<double>(n.features);
  const auto mean = static_cast<float>(
      sum_of_row(n.features, [&](auto d, std::int64_t i, auto sum)
                                 HWY_ATTR { return hn::Add(sum, hn::LoadU(d, x + i)); }) /
      count);
  const double variance = sum_of_row(n.features,
                                     [&](auto d, std::int64_t i, auto sum) HWY_ATTR {
                                       const auto centred =
                                           hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
                                       return hn::MulAdd(centred, centred, sum);
                                     }) /
                          count;
  const auto inverse = static_cast<float>(1 / std::sqrt(variance + n.epsilon));
  for_lanes(n.features, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    const auto normalised = hn::Mul(centred, hn::Set(d, inverse));
    hn::StoreU(hn::MulAdd(normalised, hn::LoadU(d, n.weight + i), hn::LoadU(d, n.bias + i)), d,
               y + i);
  });
  n.mean[row] = mean;
  n.inverse_deviation[row] = inverse;
}

void normalise_rows(const LayerNormRows& n, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) normalise_row(n, row);
}

/// With the normalised row n, and e = grad * weight: dx = (e - mean(e) - n mean(e n)) / deviation.
/// Adds grad n and grad to the sums of the weight and the bias.
void row_gradients(const LayerNormRows& n, std::int64_t row, float* HWY_RESTRICT weight_sums,
                   float* HWY_RESTRICT bias_sums) {
  const float *x = n.x + row * n.features, *grad = n.grad + row * n.features;
  const float* HWY_RESTRICT weight = n.weight;
  float* HWY_RESTRICT dx = n.dx + row * n.features;
  const float mean = n.mean[row], inverse = n.inverse_deviation[row];
  const TwoSums sums =
      two_sums_of_row(n.features, [&](auto d, std::int64_t i, auto& sum, auto& product) HWY_ATTR {
        const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
        const auto normalised = hn::Mul(centred, hn::Set(d, inverse));
        const auto g = hn::LoadU(d, grad + i), along = hn::Mul(g, normalised);
        const auto by = hn::LoadU(d, weight + i);
        hn::StoreU(hn::Add(hn::LoadU(d, weight_sums + i), along), d, weight_sums + i);
        hn::StoreU(hn::Add(hn::LoadU(d, bias_sums + i), g), d, bias_sums + i);
        sum = hn::MulAdd(g, by, sum);
        product = hn::MulAdd(along, by, product);
      });
  const auto count = static_cast<double>(n.features);
  const auto mean_gradient = static_cast<float>(sums.first / count);
  const auto mean_product = static_cast<float>(sums.second / count);
  for_lanes(n.features, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto centred = hn::Sub(hn::LoadU(d, x + i), hn::Set(d, mean));
    const auto normalised = hn::Mul(centred, hn::Set(d, inverse));
    const auto even =
        hn::MulSub(hn::LoadU(d, grad + i), hn::LoadU(d, weight + i), hn::Set(d, mean_gradient));
    const auto all = hn::NegMulAdd(normalised, hn::Set(d, mean_product), even);
    hn::StoreU(hn::Mul(all, hn::Set(d, inverse)), d, dx + i);
  });
}

/// `sums` has room for the sums of the weight and, behind them, of the bias.
void gradients_of_rows(const LayerNormRows& n, std::int64_t begin, std::int64_t end, float* sums) {
  std::fill_n(sums, 2 * n.features, 0.0f);
  for (std::int64_t row = begin; row < end; ++row) row_gradients(n, row, sums, sums + n.features);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(normalise_rows);
HWY_EXPORT(gradients_of_rows);

namespace {

/// The rows of x; throws unless x consists of rows of `features`.
std::int64_t rows_of(const char* operation, const Tensor& x, std::int64_t features) {
  const std::int64_t count = x.element_count();
  if (x.layout() != Layout::row_major || features < 0 || (features == 0 && count > 0) ||
      (features > 0 && count % features != 0))
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {} in {} does not consist of rows of {} features", operation,
                            to_string(x.shape()), name_of(x.layout()), features));
  return features == 0 ? 0 : count / features;
}

/// The tensor itself, or if it is undefined one of equal values.
Tensor or_filled(const Stream& stream, const char* operation, const char* name,
                 const Tensor& tensor, std::int64_t features, float value) {
  if (tensor.defined()) {
    check_vector(operation, name, tensor, features);
    return tensor;
  }
  Tensor filled = Tensor::empty({features}, DType::f32, stream.device);
  std::ranges::fill(filled.elements<float>(), value);
  return filled;
}

std::int64_t grain_of(std::int64_t rows, std::int64_t features) {
  return std::max<std::int64_t>(1,
                                elements_per_thread / std::max<std::int64_t>(1, rows * features));
}

}  // namespace

LayerNormOutput layer_norm(const Stream& stream, const Tensor& x, const Tensor& weight,
                           const Tensor& bias, std::int64_t features, double epsilon) {
  const std::int64_t rows = rows_of("layer_norm", x, features);
  const Tensor slope = or_filled(stream, "layer_norm", "weight", weight, features, 1.0f);
  const Tensor offset = or_filled(stream, "layer_norm", "bias", bias, features, 0.0f);
  LayerNormOutput output{Tensor::empty(x.shape(), DType::f32, stream.device),
                         Tensor::empty({rows}, DType::f32, stream.device),
                         Tensor::empty({rows}, DType::f32, stream.device)};
  const LayerNormRows n{.x = x.data<float>(),
                        .weight = slope.data<float>(),
                        .bias = offset.data<float>(),
                        .grad = nullptr,
                        .y = output.y.data<float>(),
                        .dx = nullptr,
                        .mean = output.mean.data<float>(),
                        .inverse_deviation = output.inverse_deviation.data<float>(),
                        .features = features,
                        .epsilon = epsilon};
  parallel(stream, rows, grain_of(1, features), [&](std::int64_t begin, std::int64_t end) {
    HWY_DYNAMIC_DISPATCH(normalise_rows)(n, begin, end);
  });
  return output;
}

// One pass over x and grad: a row is in the cache when its sums are known.
NormGradients layer_norm_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                                  const Tensor& weight, const LayerNormOutput& output,
                                  std::int64_t features) {
  const char* operation = "layer_norm_backward";
  check_alike(operation, x, grad);
  const std::int64_t rows = rows_of(operation, x, features);
  const Tensor slope = or_filled(stream, operation, "weight", weight, features, 1.0f);
  check_vector(operation, "the mean", output.mean, rows);
  check_vector(operation, "the deviation", output.inverse_deviation, rows);
  NormGradients gradients{Tensor::empty(x.shape(), DType::f32, stream.device),
                          Tensor::empty({features}, DType::f32, stream.device),
                          Tensor::empty({features}, DType::f32, stream.device),
                          {}};
  const LayerNormRows n{.x = x.data<float>(),
                        .weight = slope.data<float>(),
                        .bias = nullptr,
                        .grad = grad.data<float>(),
                        .y = nullptr,
                        .dx = gradients.x.data<float>(),
                        .mean = output.mean.data<float>(),
                        .inverse_deviation = output.inverse_deviation.data<float>(),
                        .features = features,
                        .epsilon = 0};
  const std::int64_t chunk = rows_of_chunk(features), chunks = (rows + chunk - 1) / chunk;
  const Tensor partials = Tensor::empty({chunks, 2 * features}, DType::f32, stream.device);
  parallel(stream, chunks, grain_of(chunk, features), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) HWY_DYNAMIC_DISPATCH(gradients_of_rows)
    (n, i * chunk, std::min((i + 1) * chunk, rows), partials.data<float>() + i * 2 * features);
  });
  const auto* sums = partials.data<float>();
  add_up_in_f64(stream, {sums, 2 * features, chunks}, features, 1.0,
                gradients.weight.data<float>());
  add_up_in_f64(stream, {sums + features, 2 * features, chunks}, features, 1.0,
                gradients.bias.data<float>());
  return gradients;
}

}  // namespace troupe::cpu
#endif
