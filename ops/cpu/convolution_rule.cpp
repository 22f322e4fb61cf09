#include "ops/cpu/convolution_rule.h"

#include <fmt/format.h>

#include <oneapi/dnnl/dnnl.hpp>

#include "runtime/error.h"

namespace troupe::cpu {
namespace {

bool has_avx512() {
  const int wanted = static_cast<int>(dnnl::cpu_isa::avx512_core);
  return (static_cast<int>(dnnl::get_effective_cpu_isa()) & wanted) == wanted;
}

bool winograd_can(const ConvolutionOptions& o) {
  return o.kernel_h == 3 && o.kernel_w == 3 && o.stride_h == 1 && o.stride_w == 1;
}

// Measured on Zen 4 and Zen 5 with one and two threads, all three directions, against direct
// convolution in its best layout: F(4x4, 3x3) gains a factor of 1.2 to 1.5 at 16 -> 16 and
// 64 -> 64 channels and of 2 to 2.7 from 160 channels on, ties at 32 -> 32 on Zen 5, and loses at
// 16 -> 32, where transforming the tiles costs as much as the multiplications that it saves.
// Images that fill less than half of their 4x4 tiles (5x5, 2x2, 1x1) waste what it saves. Each
// call also transforms the weights, which pays from about 16 tiles on for most channel counts,
// from 32 for all (eight images of 7x7, say).
bool winograd_wins(const ConvolutionOptions& o, const Shape& x) {
  const auto tiles = [](std::int64_t size) { return (size + 3) / 4; };
  const Shape y = convolution_output_shape(o, x);
  const std::int64_t tiles_an_image = tiles(y[2]) * tiles(y[3]);
  const bool fills_tiles = 2 * y[2] * y[3] >= 16 * tiles_an_image;
  const bool enough_tiles = y[0] * tiles_an_image >= 32;
  const bool enough_channels =
      o.in_channels == o.out_channels || o.in_channels * o.out_channels >= 1024;
  return fills_tiles && enough_tiles && enough_channels;
}

}  // namespace

std::vector<ConvolutionPath> convolution_paths(const ConvolutionOptions& o, const Shape& x,
                                               ConvolutionDirection direction) {
  std::vector<ConvolutionPath> paths;
  // Blocks of sixteen channels are one AVX-512 register each. Direct convolution in blocks was at
  // most 10 % slower and up to 20 % faster than in nhwc in every direction measured, Winograd
  // exists for blocks only, and a chain of layers in one layout never reorders; so blocks are used
  // wherever both sides have them.
  if (has_avx512() && o.out_channels % 16 == 0) {
    if (o.in_channels % 16 == 0) {
      const bool wanted = o.algorithm == ConvolutionAlgorithm::winograd ||
                          (o.algorithm == ConvolutionAlgorithm::automatic && winograd_wins(o, x));
      if (wanted && winograd_can(o)) paths.push_back({true, Layout::nchw16c, Layout::nchw16c});
      paths.push_back({false, Layout::nchw16c, Layout::nchw16c});
    } else if ((o.in_channels == 1 || o.in_channels == 3) &&
               direction != ConvolutionDirection::input_gradient) {
      // The layer that reads images: oneDNN has kernels from planes of pixels into blocks, twice
      // as fast as nhwc. Not for the gradient of the images, which training never asks for.
      paths.push_back({false, Layout::row_major, Layout::nchw16c});
    }
  }
  paths.push_back({false, Layout::nhwc, Layout::nhwc});
  return paths;
}

Shape convolution_output_shape(const ConvolutionOptions& o, const Shape& x) {
  if (x.rank() != 4 || x[1] != o.in_channels)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}, expected [N, {}, H, W]", describe(o),
                            to_string(x), o.in_channels),
                "check in_channels, or the layer before");
  const std::int64_t room_h = x[2] + 2 * o.padding_h - o.kernel_h;
  const std::int64_t room_w = x[3] + 2 * o.padding_w - o.kernel_w;
  if (x[0] < 1 || room_h < 0 || room_w < 0)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input {} is empty or smaller than the kernel", describe(o),
                            to_string(x)),
                "use larger images, more padding or fewer pooling layers");
  return {x[0], o.out_channels, room_h / o.stride_h + 1, room_w / o.stride_w + 1};
}

std::string describe(const ConvolutionOptions& o) {
  return fmt::format("convolution {} -> {}, {}x{}, stride {}x{}, padding {}x{}", o.in_channels,
                     o.out_channels, o.kernel_h, o.kernel_w, o.stride_h, o.stride_w, o.padding_h,
                     o.padding_w);
}

}  // namespace troupe::cpu
