// The weight gradient of depthwise convolutions, with a vector of channels in each sum. The sums of
// a row of pixels stay in registers, for several elements of the kernel at a time, and are then
// added to those of the samples before.

#include "ops/cpu/depthwise.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/depthwise_row.h"
#include "ops/cpu/pieces.h"
#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/depthwise.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// Adds the products of outputs [begin, end) to sums[kernel row][kernel column].
template <bool inside, int rows, int columns, class D>
HWY_INLINE void add_outputs(D d, const DepthwiseRow& r, std::int64_t begin, std::int64_t end,
                            hn::Vec<D> (&sums)[rows][columns]) {
  for (std::int64_t o = begin; o < end; ++o) {
    const auto slope = hn::LoadU(d, r.grad + o * r.pixel);
    const std::int64_t column = o * r.stride + r.first;
    for (int c = 0; c < columns; ++c) {
      const std::int64_t at = column + c * r.dilation;
      if (!inside && (at < 0 || at >= r.width)) continue;
      for (int k = 0; k < rows; ++k)
        sums[k][c] = hn::MulAdd(slope, hn::LoadU(d, r.x + k * r.x_row + at * r.pixel), sums[k][c]);
    }
  }
}

/// Adds one row of outputs to the totals of `rows` x `columns` kernel elements. The totals of two
/// neighbouring kernel elements are `tap` floats apart; those of two kernel rows, `tap_row` floats.
template <int rows, int columns, class D>
HWY_INLINE void add_row(D d, const DepthwiseRow& r, float* totals, std::int64_t tap,
                        std::int64_t tap_row) {
  hn::Vec<D> sums[rows][columns];
  for (int k = 0; k < rows; ++k)
    for (int c = 0; c < columns; ++c) sums[k][c] = hn::Zero(d);
  add_outputs<false, rows, columns>(d, r, 0, r.inner_begin, sums);
  add_outputs<true, rows, columns>(d, r, r.inner_begin, r.inner_end, sums);
  add_outputs<false, rows, columns>(d, r, r.inner_end, r.end, sums);
  for (int k = 0; k < rows; ++k)
    for (int c = 0; c < columns; ++c) {
      float* total = totals + k * tap_row + c * tap;
      hn::StoreU(hn::Add(hn::LoadU(d, total), sums[k][c]), d, total);
    }
}

template <int columns, class D>
HWY_INLINE void add_rows(D d, DepthwiseRow r, std::int64_t rows, float* totals, std::int64_t tap,
                         std::int64_t tap_row) {
  // As many sums as hide the latency of a multiplication, and fit into sixteen registers.
  constexpr int at_once = columns == 3 ? 3 : columns == 5 ? 2 : 1;
  std::int64_t row = 0;
  for (; row + at_once <= rows; row += at_once, r.x += at_once * r.x_row)
    add_row<at_once, columns>(d, r, totals + row * tap_row, tap, tap_row);
  for (; row < rows; ++row, r.x += r.x_row)
    add_row<1, columns>(d, r, totals + row * tap_row, tap, tap_row);
}

/// The kernel rows that meet an output row, for `channels` neighbouring channels. The totals of a
/// kernel element are `channels` numbers; those of the next one lie `tap` further.
void depthwise_row(const DepthwiseRow& row, std::int64_t rows, std::int64_t columns,
                   std::int64_t channels, float* totals, std::int64_t tap) {
  for_lanes(channels, [&](auto d, std::int64_t channel) HWY_ATTR {
    DepthwiseRow r = row;
    r.grad += channel;
    r.x += channel;
    float* const to = totals + channel;
    const std::int64_t tap_row = columns * tap;
    if (columns == 3) return add_rows<3>(d, r, rows, to, tap, tap_row);
    if (columns == 5) return add_rows<5>(d, r, rows, to, tap, tap_row);
    if (columns == 7) return add_rows<7>(d, r, rows, to, tap, tap_row);
    r.inner_begin = r.inner_end = 0;  // which depend on all columns
    for (std::int64_t c = 0; c < columns; ++c, r.first += r.dilation)
      add_rows<1>(d, r, rows, to + c * tap, tap, tap_row);
  });
}

void add_slopes(const float* grad, std::int64_t pixels, std::int64_t pixel, std::int64_t channels,
                float* totals) {
  for_lanes(channels, [&](auto d, std::int64_t c) HWY_ATTR {
    auto sum = hn::Zero(d);
    for (std::int64_t p = 0; p < pixels; ++p)
      sum = hn::Add(sum, hn::LoadU(d, grad + p * pixel + c));
    hn::StoreU(hn::Add(hn::LoadU(d, totals + c), sum), d, totals + c);
  });
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(depthwise_row);
HWY_EXPORT(add_slopes);

namespace {

constexpr std::int64_t block = 16;  // channels of a piece

/// Computes the sums of some channels over some samples, of which a tensor holds
/// [kernel elements + 1][channels], those of the bias last.
class Depthwise {
 public:
  Depthwise(const ConvolutionOptions& options, const Tensor& x, const Tensor& grad)
      : o_(options),
        x_(x.data<float>()),
        grad_(grad.data<float>()),
        channels_(options.in_channels),
        height_(x.dim(2)),
        width_(x.dim(3)),
        out_height_(grad.dim(2)),
        out_width_(grad.dim(3)),
        blocked_(x.layout() == Layout::nchw16c) {}

  std::int64_t taps() const { return o_.kernel_h * o_.kernel_w; }
  std::int64_t channels() const { return channels_; }

  void add(std::int64_t sample, std::int64_t first_channel, float* totals) const {
    const std::int64_t count = std::min(block, channels_ - first_channel);
    const float* x = x_ + at(sample, first_channel, height_ * width_);
    const float* grad = grad_ + at(sample, first_channel, out_height_ * out_width_);
    const std::int64_t pixel = blocked_ ? block : channels_;
    for (std::int64_t row = 0; row < out_height_; ++row) {
      // Kernel row k reads image row first + k * dilation; only rows in [0, height) contribute.
      const std::int64_t first = row * o_.stride_h - o_.padding_h;
      const std::int64_t begin = first < 0 ? (-first + o_.dilation_h - 1) / o_.dilation_h : 0;
      const std::int64_t room = height_ - 1 - first;
      const std::int64_t end = room < 0 ? 0 : std::min(o_.kernel_h, room / o_.dilation_h + 1);
      if (begin >= end) continue;
      DepthwiseRow r = columns_;
      r.pixel = pixel;
      r.grad = grad + row * out_width_ * pixel;
      r.x = x + (first + begin * o_.dilation_h) * width_ * pixel;
      r.x_row = o_.dilation_h * width_ * pixel;
      HWY_DYNAMIC_DISPATCH(depthwise_row)
      (r, end - begin, o_.kernel_w, count, totals + begin * o_.kernel_w * channels_, channels_);
    }
    if (o_.bias) HWY_DYNAMIC_DISPATCH(add_slopes)
    (grad, out_height_ * out_width_, pixel, count, totals + taps() * channels_);
  }

 private:
  std::int64_t at(std::int64_t sample, std::int64_t channel, std::int64_t pixels) const {
    return sample * channels_ * pixels + (blocked_ ? channel * pixels : channel);
  }

  DepthwiseRow columns_of() const {
    DepthwiseRow r;
    r.width = width_;
    r.first = -o_.padding_w;
    r.stride = o_.stride_w;
    r.dilation = o_.dilation_w;
    r.end = out_width_;
    const std::int64_t room = width_ - reach_w(o_) + o_.padding_w;  // may be negative
    r.inner_begin = std::min(r.end, (o_.padding_w + o_.stride_w - 1) / o_.stride_w);
    r.inner_end = room < 0 ? 0 : std::min(r.end, room / o_.stride_w + 1);
    r.inner_end = std::max(r.inner_begin, r.inner_end);
    return r;
  }

  ConvolutionOptions o_;
  const float *x_, *grad_;
  std::int64_t channels_, height_, width_, out_height_, out_width_;
  bool blocked_;
  DepthwiseRow columns_ = columns_of();
};

}  // namespace

void depthwise_weight_gradient(const Stream& stream, const ConvolutionOptions& options,
                               const Tensor& x, const Tensor& grad, Tensor& weight_grad,
                               Tensor& bias_grad) {
  const Depthwise depthwise(options, x, grad);
  const std::int64_t channels = options.in_channels, taps = depthwise.taps();
  const std::int64_t samples = x.dim(0), parts = std::min<std::int64_t>(samples, 8);
  const std::int64_t blocks = (channels + block - 1) / block, size = (taps + 1) * channels;
  Tensor partials = Tensor::empty({parts + 1, size}, DType::f32, stream.device);
  auto* const sums = partials.data<float>();
  parallel(stream, parts * blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t piece = begin; piece < end; ++piece) {
      const std::int64_t part = piece / blocks, channel = piece % blocks * block;
      float* const totals = sums + (part + 1) * size + channel;
      for (std::int64_t tap = 0; tap <= taps; ++tap)
        std::fill_n(totals + tap * channels, std::min(block, channels - channel), 0.0f);
      for (std::int64_t n = samples * part / parts; n < samples * (part + 1) / parts; ++n)
        depthwise.add(n, channel, totals);
    }
  });
  add_up(stream, {sums + size, size, parts}, size, sums);
  auto* const weights = weight_grad.data<float>();
  for (std::int64_t channel = 0; channel < channels; ++channel)
    for (std::int64_t tap = 0; tap < taps; ++tap)
      weights[channel * taps + tap] = sums[tap * channels + channel];
  if (options.bias) std::copy_n(sums + taps * channels, channels, bias_grad.data<float>());
}

}  // namespace troupe::cpu
#endif
