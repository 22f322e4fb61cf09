#pragma once
#include <vector>

#include "ops/cpu/processor.h"
#include "ops/kernels.h"

namespace troupe::cpu {

enum class ConvolutionDirection : std::uint8_t { forward, input_gradient, weight_gradient };

/// One way to compute a direction of a convolution: with Winograd's algorithm or directly, the
/// layouts of the tensors on both sides, and to what the multiplied numbers are rounded.
struct ConvolutionPath {
  bool winograd = false;
  Layout x = Layout::nhwc;
  Layout y = Layout::nhwc;
  DType products = DType::f32;
};

/// The paths to try, the best first; the last one always exists. The rule uses shapes and the
/// processor, never measured times, because results must not depend on timing. The reasons are in
/// the source. With `products` bf16 (Stream::products), direct paths in bf16 precede those in f32,
/// Winograd's, which is in f32, comes first where it is faster, and with AMX nhwc precedes blocks.
std::vector<ConvolutionPath> convolution_paths(const ConvolutionOptions& options, const Shape& x,
                                               ConvolutionDirection direction,
                                               DType products = DType::f32,
                                               ProcessorMaker maker = maker_of_this_processor(),
                                               bool amx = has_amx());

/// Whether a convolution of an input in this layout has only the paths in nhwc. This is so for
/// depthwise convolutions of nhwc: nchw16c halves their time, but to reorder the input takes longer
/// than that saves (Zen 5), and a following layer in nhwc would reorder again.
bool stays_nhwc(const ConvolutionOptions& options, Layout x);

/// Each channel has a kernel of its own.
constexpr bool is_depthwise(const ConvolutionOptions& o) {
  return o.groups > 1 && o.groups == o.in_channels && o.groups == o.out_channels;
}

/// Shape of the output; throws Error{bad_shape} for an input that the convolution cannot take.
Shape convolution_output_shape(const ConvolutionOptions& options, const Shape& x);

/// "convolution 16 -> 32, 3x3, stride 1x1, padding 1x1", for messages.
std::string describe(const ConvolutionOptions& options);

}  // namespace troupe::cpu
