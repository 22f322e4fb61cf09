#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/cpu/batch_norm.h"
#include "ops/cpu/checks.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/norm_ranges.h"
#include "ops/cpu/panel.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/batch_norm_backward.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// The gradient that the epilogue lets through, without dropout's scale.
template <NormMask mask, class D, class V = hn::Vec<D>, class T = hn::TFromD<D>>
HWY_INLINE V masked(D d, V grad, V x, const T* slope, const T* offset, const T* z) {
  if constexpr (mask == NormMask::from_x) {
    return relu_gradient(d, hn::MulAdd(x, hn::LoadU(d, slope), hn::LoadU(d, offset)), grad);
  } else if constexpr (mask == NormMask::from_z) {
    return hn::IfThenZeroElse(hn::Eq(hn::LoadU(d, z), hn::Zero(d)), grad);
  } else {
    return grad;
  }
}

template <NormMask mask, bool keeps = false, class T>
void sum_gradients_as(const NormBackward<T>& n, const Panel& panel, const Piece& piece, T* sums,
                      T* products) {
  const std::int64_t tile = piece.group * panel.period;
  const T* HWY_RESTRICT grad = n.grad + piece.offset;
  const T* HWY_RESTRICT x = n.x + piece.offset;
  const T* HWY_RESTRICT z = mask == NormMask::from_z ? n.z + piece.offset : n.x;
  const T* HWY_RESTRICT mean = n.mean + tile;
  const T* HWY_RESTRICT slope = n.slope + tile;
  const T* HWY_RESTRICT offset = n.offset + tile;
  T* HWY_RESTRICT passed = keeps ? n.passed + piece.offset : nullptr;
  reduce_piece(
      piece.length, panel.period, panel.run_channels,
      [=](auto d, std::int64_t i, std::int64_t p, auto& sum, auto& product) HWY_ATTR {
        const auto v = hn::LoadU(d, x + i);
        const auto g = masked<mask>(d, hn::LoadU(d, grad + i), v, slope + p, offset + p, z + i);
        if constexpr (keeps) hn::StoreU(g, d, passed + i);
        sum = hn::Add(sum, g);
        product = hn::MulAdd(g, hn::Sub(v, hn::LoadU(d, mean + p)), product);
      },
      sums, products);
}

/// Sums of the masked gradient and of its product with x - mean, for the channels of a piece.
template <class T>
void sum_gradients_any(const NormBackward<T>& n, const Panel& panel, const Piece& piece, T* sums,
                       T* products) {
  if (n.passed)
    sum_gradients_as<NormMask::from_z, true>(n, panel, piece, sums, products);
  else if (n.mask == NormMask::from_x)
    sum_gradients_as<NormMask::from_x>(n, panel, piece, sums, products);
  else if (n.mask == NormMask::from_z)
    sum_gradients_as<NormMask::from_z>(n, panel, piece, sums, products);
  else
    sum_gradients_as<NormMask::none>(n, panel, piece, sums, products);
}

template <NormMask mask, class T>
void input_gradient_as(const NormBackward<T>& n, const Panel& panel, const Piece& piece) {
  const std::int64_t tile = piece.group * panel.period;
  const T* HWY_RESTRICT grad = n.grad + piece.offset;
  const T* HWY_RESTRICT x = n.x + piece.offset;
  const T* HWY_RESTRICT z = mask == NormMask::from_z ? n.z + piece.offset : n.x;
  const T* HWY_RESTRICT slope = n.slope + tile;
  const T* HWY_RESTRICT offset = n.offset + tile;
  const T* HWY_RESTRICT along_grad = n.along_grad + tile;
  const T* HWY_RESTRICT along_x = n.along_x + tile;
  const T* HWY_RESTRICT constant = n.constant + tile;
  T* HWY_RESTRICT dx = n.dx + piece.offset;
  for_tiles<T>(
      piece.length, panel.period, panel.run_channels,
      [=](auto d, std::int64_t i, std::int64_t p) HWY_ATTR {
        const auto v = hn::LoadU(d, x + i);
        const auto g = masked<mask>(d, hn::LoadU(d, grad + i), v, slope + p, offset + p, z + i);
        const auto centred = hn::MulAdd(v, hn::LoadU(d, along_x + p), hn::LoadU(d, constant + p));
        hn::StoreU(hn::MulAdd(g, hn::LoadU(d, along_grad + p), centred), d, dx + i);
      });
}

template <class T>
void input_gradient_any(const NormBackward<T>& n, const Panel& panel, const Piece& piece) {
  if (n.mask == NormMask::from_x)
    input_gradient_as<NormMask::from_x>(n, panel, piece);
  else if (n.mask == NormMask::from_z)
    input_gradient_as<NormMask::from_z>(n, panel, piece);
  else
    input_gradient_as<NormMask::none>(n, panel, piece);
}

void sum_gradients_f32(const NormBackward<float>& n, const Panel& panel, const Piece& piece,
                       float* sums, float* products) {
  sum_gradients_any(n, panel, piece, sums, products);
}
void sum_gradients_f64(const NormBackward<double>& n, const Panel& panel, const Piece& piece,
                       double* sums, double* products) {
  sum_gradients_any(n, panel, piece, sums, products);
}
void input_gradient_f32(const NormBackward<float>& n, const Panel& panel, const Piece& piece) {
  input_gradient_any(n, panel, piece);
}
void input_gradient_f64(const NormBackward<double>& n, const Panel& panel, const Piece& piece) {
  input_gradient_any(n, panel, piece);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(sum_gradients_f32);
HWY_EXPORT(sum_gradients_f64);
HWY_EXPORT(input_gradient_f32);
HWY_EXPORT(input_gradient_f64);

namespace {

void sum_gradients(const NormBackward<float>& n, const Panel& panel, const Piece& piece,
                   float* sums, float* products) {
  HWY_DYNAMIC_DISPATCH(sum_gradients_f32)(n, panel, piece, sums, products);
}
void sum_gradients(const NormBackward<double>& n, const Panel& panel, const Piece& piece,
                   double* sums, double* products) {
  HWY_DYNAMIC_DISPATCH(sum_gradients_f64)(n, panel, piece, sums, products);
}
void input_gradient(const NormBackward<float>& n, const Panel& panel, const Piece& piece) {
  HWY_DYNAMIC_DISPATCH(input_gradient_f32)(n, panel, piece);
}
void input_gradient(const NormBackward<double>& n, const Panel& panel, const Piece& piece) {
  HWY_DYNAMIC_DISPATCH(input_gradient_f64)(n, panel, piece);
}

/// Per-channel sums over all pieces, in f64 and in the order of the pieces.
struct GradientSums {
  std::vector<double> gradient;
  std::vector<double> product;  // with x - mean
};

template <class T>
GradientSums reduce(const Stream& stream, const NormBackward<T>& n, const Panel& panel) {
  const auto width = static_cast<std::size_t>(panel.run_channels);
  std::vector<T> leaves(static_cast<std::size_t>(panel.pieces()) * 2 * width);
  parallel(stream, panel.pieces(), panel.grain(), [&](std::int64_t begin, std::int64_t end) {
    const auto period = static_cast<std::size_t>(panel.period);
    std::vector<T> scratch(2 * period);
    for (std::int64_t index = begin; index < end; ++index) {
      sum_gradients(n, panel, panel.piece(index), scratch.data(), scratch.data() + period);
      T* leaf = leaves.data() + static_cast<std::size_t>(index) * 2 * width;
      std::copy_n(scratch.data(), width, leaf);
      std::copy_n(scratch.data() + period, width, leaf + width);
    }
  });
  const auto channels = static_cast<std::size_t>(panel.channels());
  GradientSums sums{std::vector<double>(channels), std::vector<double>(channels)};
  for (std::int64_t index = 0; index < panel.pieces(); ++index) {
    const T* leaf = leaves.data() + static_cast<std::size_t>(index) * 2 * width;
    const auto first = static_cast<std::size_t>(panel.piece(index).group) * width;
    for (std::size_t c = 0; c < width; ++c) {
      sums.gradient[first + c] += leaf[c];
      sums.product[first + c] += leaf[width + c];
    }
  }
  return sums;
}

/// dx as a linear function of the masked gradient and x (S. Ioffe, C. Szegedy, "Batch
/// normalization", ICML 2015, section 3, collected by factors), one value a channel.
template <class T>
struct InputCoefficients {
  std::vector<T> along_grad, along_x, constant;
};

template <class T>
InputCoefficients<T> input_coefficients(const GradientSums& sums, double scale, double count,
                                        const Tensor& weight, const ChannelMoments& moments,
                                        double epsilon, bool batch_moments,
                                        NormGradients& gradients) {
  const std::size_t channels = sums.gradient.size();
  InputCoefficients<T> result{std::vector<T>(channels), std::vector<T>(channels),
                              std::vector<T>(channels)};
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = moments.mean.data<T>()[c];
    const double variance = moments.variance.data<T>()[c] + epsilon;
    const double inverse = 1.0 / std::sqrt(variance), slope = weight.data<T>()[c] * inverse;
    const double gradient = sums.gradient[c] * scale, product = sums.product[c] * scale;
    gradients.bias.data<T>()[c] = static_cast<T>(gradient);
    gradients.weight.data<T>()[c] = static_cast<T>(product * inverse);
    result.along_grad[c] = static_cast<T>(slope * scale);
    if (!batch_moments) continue;
    const double along_x = -slope * product / variance / count;
    result.along_x[c] = static_cast<T>(along_x);
    result.constant[c] = static_cast<T>(-slope * gradient / count - along_x * mean);
  }
  return result;
}

template <class T>
NormGradients gradients_of(const Stream& stream, const Tensor& grad, const Tensor& x,
                           const Tensor& z, const Tensor& weight, const Tensor& bias,
                           const ChannelMoments& moments, double epsilon,
                           const NormEpilogue& epilogue, bool batch_moments,
                           const Tensor& weight_gradient, const Tensor& bias_gradient) {
  const DType dtype = x.dtype();
  const Panel panel = Panel::of(x, "batch_norm_backward");
  check_alike("batch_norm_backward", x, grad, dtype);
  check_epilogue("batch_norm_backward", x, epilogue);
  const NormCoefficients norm =
      norm_coefficients("batch_norm_backward", weight, bias, moments, epsilon, panel.channels());
  const bool dropped = epilogue.dropout > 0;
  const bool summed = epilogue.relu_of_sum();
  if (dropped || summed) check_alike("batch_norm_backward", x, z, dtype);
  NormGradients gradients{Tensor::empty(x.shape(), dtype, stream.device, x.layout()),
                          weight_gradient,
                          bias_gradient,
                          {}};
  for (Tensor* gradient : {&gradients.weight, &gradients.bias}) {
    if (!gradient->defined()) *gradient = Tensor::empty({panel.channels()}, dtype, stream.device);
    check_vector("batch_norm_backward", "a gradient", *gradient, panel.channels(), dtype);
  }
  if (summed) gradients.residual = Tensor::empty(x.shape(), dtype, stream.device, x.layout());

  Tensor tiles = Tensor::empty({6, panel.tile_elements()}, dtype, stream.device);
  const auto tile = [&](int index, const T* values) {
    T* to = tiles.data<T>() + index * panel.tile_elements();
    panel.fill_tiles(values, to);
    return to;
  };
  NormBackward<T> n{};
  n.mask = dropped || summed ? NormMask::from_z : epilogue.relu ? NormMask::from_x : NormMask::none;
  n.grad = grad.data<T>();
  n.x = x.data<T>();
  n.z = dropped || summed ? z.data<T>() : nullptr;
  n.passed = summed ? gradients.residual.data<T>() : nullptr;
  n.dx = gradients.x.data<T>();
  n.slope = tile(0, norm.slope.data<T>());
  n.offset = tile(1, norm.offset.data<T>());
  n.mean = tile(2, moments.mean.data<T>());
  const GradientSums sums = reduce(stream, n, panel);
  if (summed) {
    n.mask = NormMask::none;
    n.grad = n.passed;
  }

  const double scale = dropped ? 1.0f / (1.0f - epilogue.dropout) : 1.0f;
  const InputCoefficients<T> input =
      input_coefficients<T>(sums, scale, static_cast<double>(panel.elements_per_channel()), weight,
                            moments, epsilon, batch_moments, gradients);
  n.along_grad = tile(3, input.along_grad.data());
  n.along_x = tile(4, input.along_x.data());
  n.constant = tile(5, input.constant.data());
  parallel(stream, panel.pieces(), panel.grain(), [&](std::int64_t begin, std::int64_t end) {
    // The last pieces were summed last and may still be in the cache.
    for (std::int64_t index = end - 1; index >= begin; --index)
      input_gradient(n, panel, panel.piece(index));
  });
  return gradients;
}

}  // namespace

// Two passes: both reductions, then the gradient of x. What relu let through is computed again from
// x with the arithmetic of batch_norm or, after a dropout or a sum, read from z. After a sum, the
// first pass writes the residual's gradient, which the second reads in place of `grad` and z.
NormGradients batch_norm_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                                  const Tensor& z, const Tensor& weight, const Tensor& bias,
                                  const ChannelMoments& moments, double epsilon,
                                  const NormEpilogue& epilogue, bool batch_moments,
                                  Tensor& weight_gradient, Tensor& bias_gradient) {
  const auto of = x.dtype() == DType::f64 ? gradients_of<double> : gradients_of<float>;
  return of(stream, grad, x, z, weight, bias, moments, epsilon, epilogue, batch_moments,
            weight_gradient, bias_gradient);
}

}  // namespace troupe::cpu
#endif
