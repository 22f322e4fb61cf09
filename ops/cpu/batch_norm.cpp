#include "ops/cpu/batch_norm.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ops/cpu/checks.h"
#include "ops/cpu/dropout.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/norm_ranges.h"
#include "ops/cpu/panel.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"
#include "runtime/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/batch_norm.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

enum class Residual { none, first, last };

template <bool with_relu, Residual with_residual, bool with_dropout, class T>
void normalise_as(const NormStretch<T>& s) {
  const T* HWY_RESTRICT x = s.x;
  const T* HWY_RESTRICT slope = s.slope;
  const T* HWY_RESTRICT offset = s.offset;
  const T* HWY_RESTRICT residual = s.residual;
  const T* HWY_RESTRICT scales = s.scales;
  T* HWY_RESTRICT z = s.z;
  for_tiles<T>(
      s.length, s.period, s.channels, [&](auto d, std::int64_t i, std::int64_t p) HWY_ATTR {
        auto v = hn::MulAdd(hn::LoadU(d, x + i), hn::LoadU(d, slope + p), hn::LoadU(d, offset + p));
        if (with_residual == Residual::first) v = hn::Add(v, hn::LoadU(d, residual + i));
        if (with_relu) v = relu(d, v);
        if (with_dropout) v = hn::Mul(v, hn::LoadU(d, scales + i));
        if (with_residual == Residual::last) v = hn::Add(v, hn::LoadU(d, residual + i));
        hn::StoreU(v, d, z + i);
      });
}

template <class T>
void normalise_any(const NormStretch<T>& s) {
  if (s.scales) return normalise_as<true, Residual::none, true>(s);
  if (s.relu && s.residual && s.residual_first)
    return normalise_as<true, Residual::first, false>(s);
  if (s.relu && s.residual) return normalise_as<true, Residual::last, false>(s);
  if (s.relu) return normalise_as<true, Residual::none, false>(s);
  if (s.residual) return normalise_as<false, Residual::last, false>(s);
  normalise_as<false, Residual::none, false>(s);
}

void normalise_f32(const NormStretch<float>& s) { normalise_any(s); }
void normalise_f64(const NormStretch<double>& s) { normalise_any(s); }

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(normalise_f32);
HWY_EXPORT(normalise_f64);

namespace {

void normalise(const NormStretch<float>& s) { HWY_DYNAMIC_DISPATCH(normalise_f32)(s); }
void normalise(const NormStretch<double>& s) { HWY_DYNAMIC_DISPATCH(normalise_f64)(s); }

template <class T>
NormCoefficients coefficients_of(const Tensor& weight, const Tensor& bias,
                                 const ChannelMoments& moments, double epsilon,
                                 std::int64_t channels) {
  NormCoefficients result{Tensor::empty({channels}, weight.dtype(), weight.device()),
                          Tensor::empty({channels}, weight.dtype(), weight.device())};
  for (std::int64_t c = 0; c < channels; ++c) {
    const double slope = weight.data<T>()[c] /
                         std::sqrt(static_cast<double>(moments.variance.data<T>()[c]) + epsilon);
    result.slope.data<T>()[c] = static_cast<T>(slope);
    result.offset.data<T>()[c] =
        static_cast<T>(bias.data<T>()[c] - moments.mean.data<T>()[c] * slope);
  }
  return result;
}

}  // namespace

NormCoefficients norm_coefficients(const char* operation, const Tensor& weight, const Tensor& bias,
                                   const ChannelMoments& moments, double epsilon,
                                   std::int64_t channels) {
  const DType dtype = weight.defined() ? weight.dtype() : DType::f32;
  check_vector(operation, "the weight", weight, channels, dtype);
  check_vector(operation, "the bias", bias, channels, dtype);
  check_vector(operation, "the mean", moments.mean, channels, dtype);
  check_vector(operation, "the variance", moments.variance, channels, dtype);
  return dtype == DType::f64 ? coefficients_of<double>(weight, bias, moments, epsilon, channels)
                             : coefficients_of<float>(weight, bias, moments, epsilon, channels);
}

void check_epilogue(const char* operation, const Tensor& x, const NormEpilogue& epilogue) {
  if (epilogue.residual.defined()) check_alike(operation, x, epilogue.residual, x.dtype());
  if (epilogue.dropout == 0.0 || (epilogue.relu && !epilogue.residual.defined())) return;
  throw Error(ErrorCode::unsupported,
              fmt::format("{}: dropout {} in the epilogue {}", operation, epilogue.dropout,
                          epilogue.relu ? "with a residual" : "without relu"),
              "use the kernel for dropout alone");
}

namespace {

template <class T>
void normalise_tensor(const Stream& stream, const Panel& panel, const Tensor& x,
                      const NormCoefficients& coefficients, const NormEpilogue& epilogue,
                      Tensor& z) {
  Tensor slope = Tensor::empty({panel.tile_elements()}, x.dtype(), stream.device),
         offset = Tensor::empty(slope.shape(), x.dtype(), stream.device);
  panel.fill_tiles(coefficients.slope.data<T>(), slope.data<T>());
  panel.fill_tiles(coefficients.offset.data<T>(), offset.data<T>());
  const bool drops = epilogue.dropout > 0;
  const DropoutPattern pattern = DropoutPattern::of(x, epilogue.dropout, epilogue.random);

  const NormStretch<T> all{0,
                           panel.period,
                           panel.run_channels,
                           slope.data<T>(),
                           offset.data<T>(),
                           x.data<T>(),
                           epilogue.residual.defined() ? epilogue.residual.data<T>() : nullptr,
                           nullptr,
                           z.data<T>(),
                           epilogue.relu,
                           epilogue.residual_first};
  // With dropout, as much at a time as lets the factors stay in the first-level cache.
  const std::int64_t step =
      drops ? std::max<std::int64_t>(1, 2048 / panel.period) * panel.period : panel.piece_length;
  parallel(stream, panel.pieces(), panel.grain(), [&](std::int64_t begin, std::int64_t end) {
    DropoutScales<T> scales(drops ? step : 0);
    // The last pieces were read last by what came before, and may still be in the cache.
    for (std::int64_t index = end - 1; index >= begin; --index) {
      const Piece piece = panel.piece(index);
      for (std::int64_t start = 0; start < piece.length; start += step) {
        const std::int64_t at = piece.offset + start;
        NormStretch<T> s = all;
        s.length = std::min(step, piece.length - start);
        s.slope += piece.group * panel.period;
        s.offset += piece.group * panel.period;
        s.x += at;
        s.z += at;
        if (s.residual) s.residual += at;
        if (drops) s.scales = scales.fill(pattern, at, s.length);
        normalise(s);
      }
    }
  });
}

}  // namespace

// One pass. Dropout in the epilogue needs relu and no residual, since backward tells the dropped
// elements by their zeros.
Tensor batch_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const ChannelMoments& moments, double epsilon, const NormEpilogue& epilogue) {
  const Panel panel = Panel::of(x, "batch_norm");
  check_epilogue("batch_norm", x, epilogue);
  const NormCoefficients coefficients =
      norm_coefficients("batch_norm", weight, bias, moments, epsilon, panel.channels());
  Tensor z = Tensor::empty(x.shape(), x.dtype(), stream.device, x.layout());
  if (x.dtype() == DType::f64)
    normalise_tensor<double>(stream, panel, x, coefficients, epilogue, z);
  else
    normalise_tensor<float>(stream, panel, x, coefficients, epilogue, z);
  return z;
}

}  // namespace troupe::cpu
#endif
