#pragma once
#include <vector>

#include "ops/cpu/processor.h"
#include "ops/kernels.h"

namespace troupe::cpu {

enum class ConvolutionDirection : std::uint8_t { forward, input_gradient, weight_gradient };

/// One way to compute a direction of a convolution: with Winograd's algorithm or directly, and the
/// layouts of the tensors on both sides.
struct ConvolutionPath {
  bool winograd = false;
  Layout x = Layout::nhwc;
  Layout y = Layout::nhwc;
};

/// The paths to try, the best first; the last one always exists. The rule uses shapes and the
/// processor, never measured times, because results must not depend on timing. The reasons are in
/// the source.
std::vector<ConvolutionPath> convolution_paths(const ConvolutionOptions& options, const Shape& x,
                                               ConvolutionDirection direction,
                                               ProcessorMaker maker = maker_of_this_processor());

/// Shape of the output; throws Error{bad_shape} for an input that the convolution cannot take.
Shape convolution_output_shape(const ConvolutionOptions& options, const Shape& x);

/// "convolution 16 -> 32, 3x3, stride 1x1, padding 1x1", for messages.
std::string describe(const ConvolutionOptions& options);

}  // namespace troupe::cpu
