#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::cpu {

// Winograd's algorithm F(4x4, 3x3) for convolutions of stride 1 (A. Lavin, S. Gray, "Fast
// algorithms for convolutional neural networks", CVPR 2016). With tiles d of 6x6 pixels of x,
// kernels g of 3x3 and tiles y of 4x4 pixels of the output,
//
//   y = A^T [sum over channels of (G g G^T) * (B^T d B)] A,   * element by element,
//
// so that 36 multiplications take the place of 144. The sum is a product of matrices, [tiles,
// channels] x [channels, channels], for each of the 36 elements. The gradient of the kernel is
//
//   dg = G^T [sum over tiles of (A dy A^T) * (B^T d B)] G.
//
// The matrices follow from the points 0, 5/8, -5/8, 3/2, -3/2 and infinity at which the polynomials
// of a row are multiplied. The choice of points decides the error (B. Barabasz et al., "Error
// analysis and improving the accuracy of Winograd convolution", 2018).

/// Some samples and some channels of the result of one direction. The gradient of the input is a
/// convolution whose input is the output's gradient. All tensors are nchw16c and 64-byte aligned,
/// so that all numbers of channels are multiples of 16.
struct WinogradPiece {
  std::int64_t samples = 0;
  std::int64_t height = 0, width = 0, channels = 0;  ///< of the input
  std::int64_t out_height = 0, out_width = 0;        ///< of the output
  std::int64_t out_channels = 0;                     ///< of the output, those of all pieces
  std::int64_t padding_h = 0, padding_w = 0;
  std::int64_t first_channel = 0, piece_channels = 0;  ///< of the output
};

/// Kernels in blocks of 16x16 channels, each [3][3][16 channels that are read][16 that are
/// written].
struct WinogradWeights {
  const float* data = nullptr;
  std::int64_t read_stride = 0, written_stride = 0;  ///< floats from a block to the next
  bool flipped = false;                              ///< for the gradient of the input
};

// Pieces of the same samples and different channels may share transformed tiles of what they read.

/// The floats of the shared tiles of winograd_piece(), which are ordered by rows, or of
/// winograd_piece_gradient(); 0: too many tiles to share.
std::int64_t winograd_tile_count(const WinogradPiece& piece, bool by_rows);
/// Writes those of the block `read` of 16 channels.
void winograd_tiles(const WinogradPiece& piece, const float* from, std::int64_t read, bool by_rows,
                    float* to);

/// The scratch memory that winograd_piece() needs.
std::size_t winograd_bytes(const WinogradPiece& piece, bool shares_tiles);

/// The convolution of `from` or, with flipped weights, the gradient of its input. `from` and `to`
/// begin at the piece's first sample, `bias` (null: none) at channel 0. Without `shared_tiles`, it
/// transforms tiles itself.
void winograd_piece(const WinogradPiece& piece, const float* from, const WinogradWeights& weights,
                    const float* bias, float* to, const float* shared_tiles, std::byte* memory);

/// The scratch memory that winograd_piece_gradient() needs.
std::size_t winograd_gradient_bytes(const WinogradPiece& piece, bool shares_tiles);

/// The gradient of the weights, row-major [out_channels, channels, 3, 3], of which the piece writes
/// its channels, from x and the output's gradient of the piece's samples. `shared_tiles` as above.
void winograd_piece_gradient(const WinogradPiece& piece, const float* x, const float* grad,
                             float* weight_grad, const float* shared_tiles, std::byte* memory);

}  // namespace troupe::cpu
