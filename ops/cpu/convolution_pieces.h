#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// The weights of `out_channels` channels of the output as oneDNN takes them: [O, I, KH, KW] or,
/// with several groups, [groups, O / groups, I / groups, KH, KW].
Shape grouped_shape(const ConvolutionOptions& options, std::int64_t out_channels);

/// Copies the channels of a piece from or into nchw16c memory of all channels.
class PieceChannels {
 public:
  PieceChannels(const Shape& whole, const ConvolutionPiece& piece, DType dtype)
      : samples_(piece.samples),
        before_(bytes_of(piece.first_channel, whole, dtype)),
        of_sample_(bytes_of(whole[1], whole, dtype)),
        of_piece_(bytes_of(piece.channels, whole, dtype)) {}

  void gather(const std::byte* samples, std::byte* to) const {
    for (std::int64_t n = 0; n < samples_; ++n)
      std::memcpy(to + n * of_piece_, samples + n * of_sample_ + before_,
                  static_cast<std::size_t>(of_piece_));
  }
  void scatter(const std::byte* from, std::byte* samples) const {
    for (std::int64_t n = 0; n < samples_; ++n)
      std::memcpy(samples + n * of_sample_ + before_, from + n * of_piece_,
                  static_cast<std::size_t>(of_piece_));
  }

 private:
  static std::int64_t bytes_of(std::int64_t channels, const Shape& whole, DType dtype) {
    return channels * whole[2] * whole[3] * static_cast<std::int64_t>(size_of(dtype));
  }

  std::int64_t samples_, before_, of_sample_, of_piece_;
};

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
