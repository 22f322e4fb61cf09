#include "ops/cpu/convolution_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/cpu/winograd_convolution.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

/// How F(4x4, 3x3) divides a convolution's output: into tiles of 4x4 pixels, those at the edges
/// perhaps only partly of use.
struct Tiling {
  std::int64_t tiles = 0;  ///< of all images
  double used = 0;         ///< share of their pixels
};

Tiling tiling_of(const ConvolutionOptions& o, const Shape& x) {
  const Shape y = convolution_output_shape(o, x);
  const auto across = [](std::int64_t size) { return (size + 3) / 4; };
  const std::int64_t an_image = across(y[2]) * across(y[3]);
  return {y[0] * an_image, static_cast<double>(y[2] * y[3]) / static_cast<double>(16 * an_image)};
}

// Measured on AMD's Zen 4 with one thread, all three directions, against direct convolution in its
// best layout: F(4x4, 3x3) gains a factor of 1.2 to 2.3 from 16 -> 16 channels on, on images of 7x7
// to 28x28. Images that fill less than half of their 4x4 tiles (5x5, 2x2, 1x1) waste what it saves.
// The weights are transformed too, for each group of tiles, which pays from about 32 tiles on
// (eight images of 7x7, say).
bool wins_on_amd(const Tiling& tiling) { return tiling.used >= 0.5 && tiling.tiles >= 32; }

// Measured on Intel's Emerald Rapids with one thread and oneDNN's Winograd kernels, against direct
// convolution, which does up to 185 Gflop/s there (two multipliers of 512 bits) while its tensors
// are small: F(4x4, 3x3) gains a factor of 1.2 to 3 from 64 -> 64 channels and 64 tiles on, from 32
// -> 32 where tiles are full and many (1.4 on eight images of 28x28), and loses below: 0.6 to 1.0
// at 16 -> 16, 0.7 at 32 -> 32 on eight images of 14x14, 0.6 at 64 -> 64 to 0.8 at 192 -> 192 on as
// many of 7x7. It loses more within a training step, where other tensors pass through the caches
// between two calls.
bool wins_on_intel(const ConvolutionOptions& o, const Tiling& tiling) {
  const std::int64_t channels = o.in_channels * o.out_channels;
  const bool full = tiling.used == 1.0;
  return tiling.used >= 0.5 && ((channels >= 4096 && tiling.tiles >= 64) ||
                                (channels >= 1024 && tiling.tiles >= 256 && full));
}

bool winograd_wins(const ConvolutionOptions& o, const Shape& x, ProcessorMaker maker) {
  const Tiling tiling = tiling_of(o, x);
  return maker == ProcessorMaker::intel ? wins_on_intel(o, tiling) : wins_on_amd(tiling);
}

// There is no Winograd convolution in bf16. Measured with oneDNN's, one thread and tensors that
// need no conversion, F(4x4, 3x3) in f32 against direct convolution in bf16 gains a factor of 1.2
// to 1.4 on Zen 4 from 160 -> 160 channels on where tiles are full and many (images of 16x16 and
// more), and of 1.0 to 1.3 on 16 images of 8x8; a step of Zen 5 takes as long by either. Below that
// it gains up to 1.3 on Zen 4, takes up to 1.7 times as long on Zen 5. AMX multiplies tiles of bf16
// faster than either.
bool winograd_beats_bf16(const ConvolutionOptions& o, const Shape& x, bool amx) {
  const Tiling tiling = tiling_of(o, x);
  return !amx && std::min(o.in_channels, o.out_channels) >= 160 && tiling.used == 1.0 &&
         tiling.tiles >= 64;
}

bool winograd_wanted(const ConvolutionOptions& o, const Shape& x, DType products,
                     ProcessorMaker maker, bool amx) {
  if (o.algorithm != ConvolutionAlgorithm::automatic)
    return o.algorithm == ConvolutionAlgorithm::winograd;
  return products == DType::f32 ? winograd_wins(o, x, maker) : winograd_beats_bf16(o, x, amx);
}

/// Each direct path in bf16, then in f32, which is left for what oneDNN has no fast kernel in bf16
/// for. oneDNN uses AMX for nhwc only, blocks get the older instructions for bf16: a step of wide
/// ResNets and ResNet-18 takes 1.8 to 3.7 times as long with those (Emerald Rapids).
std::vector<ConvolutionPath> with_bf16(const std::vector<ConvolutionPath>& paths, bool amx) {
  std::vector<ConvolutionPath> result;
  if (amx && !paths.front().winograd)
    result.push_back({false, Layout::nhwc, Layout::nhwc, DType::bf16});
  for (ConvolutionPath path : paths) {
    if (path.winograd) {
      result.push_back(path);
      continue;
    }
    path.products = DType::bf16;
    result.push_back(path);
    path.products = DType::f32;
    result.push_back(path);
  }
  return result;
}

/// oneDNN's kernel for the weight gradient of strided 1x1 convolutions in nhwc gathers the input in
/// working memory. If the input's channels do not fill a vector, it asks for too little, and writes
/// behind it (oneDNN's issue 6035).
bool overruns(const ConvolutionOptions& o, ConvolutionDirection direction) {
  constexpr std::int64_t longest_vector = 16;
  return direction == ConvolutionDirection::weight_gradient && o.kernel_h == 1 && o.kernel_w == 1 &&
         o.stride_h * o.stride_w > 1 && o.groups == 1 && o.in_channels < longest_vector;
}

/// oneDNN's kernels in bf16 give wrong weight gradients, or access other memory, where images are
/// smaller than the stride, and of some dilated kernels; wrong input gradients of 1x1 kernels with
/// an odd number of results; and, with AMX, wrong results or crashes where a kernel skips rows.
bool errs_in_bf16(const ConvolutionOptions& o, const Shape& x, ConvolutionDirection direction) {
  const bool point = o.kernel_h == 1 && o.kernel_w == 1;
  if (direction == ConvolutionDirection::forward) {
    const bool padded = o.padding_h > 0 || o.padding_w > 0;
    return reach_h(o) < o.stride_h && (!point || padded);
  }
  const bool small = x[2] < o.stride_h || x[3] < o.stride_w;
  const bool dilated = o.dilation_h > 1 || o.dilation_w > 1;
  const bool odd = point && o.out_channels / o.groups % 2 != 0;
  if (direction == ConvolutionDirection::weight_gradient) return small || dilated;
  return direction == ConvolutionDirection::input_gradient && odd;
}

}  // namespace

std::vector<ConvolutionPath> convolution_paths(const ConvolutionOptions& o, const Shape& x,
                                               ConvolutionDirection direction, DType products,
                                               ProcessorMaker maker, bool amx) {
  std::vector<ConvolutionPath> paths;
  // Blocks of sixteen channels are one AVX-512 register each. Direct convolution in blocks was at
  // most 10 % slower and up to 20 % faster than in nhwc in every direction measured, Winograd
  // exists for blocks only, and a chain of layers in one layout never reorders; so blocks are used
  // wherever both sides have them.
  if (has_avx512() && o.out_channels % 16 == 0) {
    if (o.in_channels % 16 == 0) {
      if (winograd_can(o) && winograd_wanted(o, x, products, maker, amx))
        paths.push_back({true, Layout::nchw16c, Layout::nchw16c});
      paths.push_back({false, Layout::nchw16c, Layout::nchw16c});
    } else if ((o.in_channels == 1 || o.in_channels == 3) &&
               direction != ConvolutionDirection::input_gradient) {
      // The layer that reads images: oneDNN has kernels from planes of pixels into blocks, twice
      // as fast as nhwc. Not for the gradient of the images, which training never asks for.
      paths.push_back({false, Layout::row_major, Layout::nchw16c});
    }
  }
  const bool is_barred = overruns(o, direction);
  if (is_barred)
    paths = {{false, Layout::row_major, Layout::row_major}};
  else
    paths.push_back({false, Layout::nhwc, Layout::nhwc});
  if (products == DType::f32 || errs_in_bf16(o, x, direction)) return paths;
  return with_bf16(paths, amx && !is_barred);
}

bool stays_nhwc(const ConvolutionOptions& options, Layout x) {
  return x == Layout::nhwc && is_depthwise(options);
}

Shape convolution_output_shape(const ConvolutionOptions& o, const Shape& x) {
  if (x.rank() != 4 || x[1] != o.in_channels)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}, expected [N, {}, H, W]", describe(o),
                            to_string(x), o.in_channels),
                "check in_channels, or the layer before");
  const std::int64_t room_h = x[2] + 2 * o.padding_h - reach_h(o);
  const std::int64_t room_w = x[3] + 2 * o.padding_w - reach_w(o);
  if (x[0] < 1 || room_h < 0 || room_w < 0)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input {} is empty or smaller than the kernel", describe(o),
                            to_string(x)),
                "use larger images, more padding or fewer pooling layers");
  return {x[0], o.out_channels, room_h / o.stride_h + 1, room_w / o.stride_w + 1};
}

std::string describe(const ConvolutionOptions& o) {
  std::string text = fmt::format("convolution {} -> {}, {}x{}, stride {}x{}, padding {}x{}",
                                 o.in_channels, o.out_channels, o.kernel_h, o.kernel_w, o.stride_h,
                                 o.stride_w, o.padding_h, o.padding_w);
  if (o.dilation_h != 1 || o.dilation_w != 1)
    text += fmt::format(", dilation {}x{}", o.dilation_h, o.dilation_w);
  if (o.groups != 1) text += fmt::format(", {} groups", o.groups);
  return text;
}

}  // namespace troupe::cpu
