#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/cpu/convolution_rule.h"
#include "ops/cpu/onednn.h"

namespace troupe::cpu {

/// A part of one direction of a convolution: some samples, and some channels of the result: of x in
/// the input gradient, else of y.
struct ConvolutionPiece {
  std::int64_t first_sample = 0, samples = 0;
  std::int64_t first_channel = 0, channels = 0;
};

/// The pieces of a direction along a path, those of the same samples next to each other. They
/// depend on the shapes alone, never on threads. One piece if a division costs more than it gains.
std::vector<ConvolutionPiece> convolution_pieces(const ConvolutionOptions& options, const Shape& x,
                                                 ConvolutionDirection direction,
                                                 const ConvolutionPath& path);

/// A piece, compiled for one thread.
struct CompiledPiece {
  ConvolutionPiece piece;
  dnnl::memory::desc weights;  ///< of the weights or, in the weight gradient, of their gradient
  PreparedPrimitive primitive;
};

/// Compiles a piece of a convolution of `x`. Throws dnnl::error if oneDNN does not have this path
/// or, unless it is the last choice, has only a plain loop for it.
CompiledPiece compile_piece(const ConvolutionOptions& options, const Shape& x,
                            ConvolutionDirection direction, const ConvolutionPath& path,
                            const ConvolutionPiece& piece, bool last_choice);

}  // namespace troupe::cpu
