#include <algorithm>
#include <type_traits>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/panel.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"
#include "ops/reference/norm_statistics.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/moments.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

// For each channel of a piece: a shift (its first value), and the sums of x - shift and its square.
// `scratch` has three tiles; the results are the first run_channels of each.
template <class T>
void sum_piece(const Panel& panel, const T* x, const Piece& piece, T* scratch) {
  const std::int64_t period = panel.period, channels = panel.run_channels;
  const T* HWY_RESTRICT from = x + piece.offset;
  T* HWY_RESTRICT shift = scratch;
  for (std::int64_t p = 0; p < channels; ++p) shift[p] = from[p];
  for (std::int64_t filled = channels; filled < period; filled *= 2)
    for (std::int64_t p = 0; p < filled; ++p) shift[filled + p] = shift[p];
  reduce_piece(
      piece.length, period, channels,
      [from, shift](auto d, std::int64_t i, std::int64_t p, auto& sum, auto& squares) HWY_ATTR {
        const auto v = hn::Sub(hn::LoadU(d, from + i), hn::LoadU(d, shift + p));
        sum = hn::Add(sum, v);
        squares = hn::MulAdd(v, v, squares);
      },
      scratch + period, scratch + 2 * period);
}

void sum_piece_f32(const Panel& panel, const float* x, const Piece& piece, float* scratch) {
  sum_piece(panel, x, piece, scratch);
}
void sum_piece_f64(const Panel& panel, const double* x, const Piece& piece, double* scratch) {
  sum_piece(panel, x, piece, scratch);
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(sum_piece_f32);
HWY_EXPORT(sum_piece_f64);

namespace {

void sum_piece(const Panel& panel, const float* x, const Piece& piece, float* scratch) {
  HWY_DYNAMIC_DISPATCH(sum_piece_f32)(panel, x, piece, scratch);
}
void sum_piece(const Panel& panel, const double* x, const Piece& piece, double* scratch) {
  HWY_DYNAMIC_DISPATCH(sum_piece_f64)(panel, x, piece, scratch);
}

template <class T>
ChannelMoments moments_of(const Stream& stream, const Panel& panel, const T* from) {
  const auto width = static_cast<std::size_t>(panel.run_channels);
  std::vector<T> leaves(static_cast<std::size_t>(panel.pieces()) * 3 * width);
  parallel(stream, panel.pieces(), panel.grain(), [&](std::int64_t begin, std::int64_t end) {
    const auto period = static_cast<std::size_t>(panel.period);
    std::vector<T> scratch(3 * period);
    for (std::int64_t index = begin; index < end; ++index) {
      sum_piece(panel, from, panel.piece(index), scratch.data());
      for (std::size_t part = 0; part < 3; ++part)
        std::copy_n(scratch.data() + part * period, width,
                    leaves.data() + (static_cast<std::size_t>(index) * 3 + part) * width);
    }
  });

  const auto channels = static_cast<std::size_t>(panel.channels());
  std::vector<double> sums(channels), squares(channels), origins(channels);
  // In f64, pieces are added up about a value of the channel too: that of its first piece.
  if (std::is_same_v<T, double>)
    for (std::size_t c = 0; c < channels; ++c)
      origins[c] =
          leaves[c / width * static_cast<std::size_t>(panel.run_pieces) * 3 * width + c % width];
  for (std::int64_t index = 0; index < panel.pieces(); ++index) {
    const Piece piece = panel.piece(index);
    const std::int64_t samples = piece.length / panel.run_channels;
    const auto count = static_cast<double>(samples);
    const auto first = static_cast<std::size_t>(piece.group) * width;
    const T* shift = leaves.data() + static_cast<std::size_t>(index) * 3 * width;
    for (std::size_t c = 0; c < width; ++c) {
      const double s = shift[c] - origins[first + c], a = shift[width + c],
                   b = shift[2 * width + c];
      sums[first + c] += a + count * s;
      squares[first + c] += b + s * (2 * a + count * s);
    }
  }
  const DType dtype = std::is_same_v<T, double> ? DType::f64 : DType::f32;
  ChannelMoments moments{Tensor::empty({panel.channels()}, dtype, stream.device),
                         Tensor::empty({panel.channels()}, dtype, stream.device)};
  const auto count = static_cast<double>(panel.elements_per_channel());
  for (std::size_t c = 0; c < channels; ++c) {
    const double mean = sums[c] / count;
    moments.mean.data<T>()[c] = static_cast<T>(origins[c] + mean);
    moments.variance.data<T>()[c] = static_cast<T>(std::max(squares[c] / count - mean * mean, 0.0));
  }
  return moments;
}

}  // namespace

// One pass over x. Sums are in its type about a value of the channel within pieces of a few
// thousand elements, in f64 over pieces; so neither a large mean nor many elements cost accuracy.
ChannelMoments channel_moments(const Stream& stream, const Tensor& x, const Tensor&, const Tensor&,
                               double, Tensor& mean, Tensor& unbiased_variance) {
  const Panel panel = Panel::of(x, "channel_moments");
  ChannelMoments moments = x.dtype() == DType::f64 ? moments_of(stream, panel, x.data<double>())
                                                   : moments_of(stream, panel, x.data<float>());
  reference::write_statistics(moments, static_cast<double>(panel.elements_per_channel()), mean,
                              unbiased_variance);
  return moments;
}

}  // namespace troupe::cpu
#endif
