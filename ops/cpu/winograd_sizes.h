#pragma once
// How winograd.cpp and winograd_gradient.cpp divide their work, and where transformed tiles lie.

#include <algorithm>

#include "ops/cpu/winograd.h"

namespace troupe::cpu::winograd_sizes {

inline constexpr std::int64_t block = 16;  // channels next to each other in nchw16c
/// Channels of the result that are computed at a time.
inline constexpr std::int64_t columns = 32;
/// Blocks of channels whose kernels are transformed at a time.
inline constexpr std::int64_t read_blocks = 4;
/// Tiles whose sums are in registers at a time.
inline constexpr std::int64_t rows = 12;
/// Tiles of a group: fewer, and the kernels, which are transformed for each group, take more time
/// than they save; more, and the sums of 32 channels leave the cache of a core.
inline constexpr std::int64_t most_tiles = 144;
inline constexpr std::int64_t elements = 36;  // of a transformed tile
/// Between the matrices of two elements, so that the 36 do not compete for the same lines of a
/// cache.
inline constexpr std::int64_t gap = 5 * 16;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// From the matrix of one element to that of the next.
inline constexpr std::int64_t kernel_element = read_blocks * block * columns + gap;
inline constexpr std::int64_t sum_element = most_tiles * columns + gap;

/// The transformed tiles of a group: [36][rows of tiles][channels / 16][tiles of a row][16].
struct TileOrder {
  std::int64_t element = 0, row = 0, channels = 0;  ///< floats from one to the next
  std::int64_t row_tiles = 0;

  std::int64_t at(std::int64_t tile, std::int64_t channel_block) const {
    return tile / row_tiles * row + channel_block * channels + tile % row_tiles * block;
  }
};

/// The tiles of a piece, divided into groups of about the same size.
struct TileGroups {
  explicit TileGroups(const WinogradPiece& piece)
      : tiles(piece.samples * ((piece.out_height + 3) / 4) * ((piece.out_width + 3) / 4)) {
    const std::int64_t groups = (tiles + most_tiles - 1) / most_tiles;
    size = round_up((tiles + groups - 1) / groups, 4);
  }

  /// For products of a row of tiles with all channels.
  TileOrder by_rows(std::int64_t all_channels) const {
    return {round_up(size, rows) * all_channels + gap, rows * all_channels, rows * block, rows};
  }
  /// For products of all tiles with a block of channels.
  TileOrder by_channels(std::int64_t all_channels) const {
    return {size * all_channels + gap, 0, size * block, size};
  }

  bool is_one() const { return tiles <= size; }

  std::int64_t tiles = 0, size = 0;
};

/// Calls body(channel, count) for the channels that the piece writes.
template <class Body>
void for_columns(const WinogradPiece& piece, const Body& body) {
  for (std::int64_t done = 0; done < piece.piece_channels; done += columns)
    body(piece.first_channel + done, std::min(columns, piece.piece_channels - done));
}

/// Calls body(block, count) for the blocks of channels that the piece reads.
template <class Body>
void for_read_blocks(const WinogradPiece& piece, const Body& body) {
  const std::int64_t blocks = piece.channels / block;
  const std::int64_t times = (blocks + read_blocks - 1) / read_blocks;
  for (std::int64_t i = 0; i < times; ++i) {
    const std::int64_t read = blocks * i / times;
    body(read, blocks * (i + 1) / times - read);
  }
}

/// The sums of a weight gradient before they are written: of all channels if there are several
/// groups.
inline std::int64_t total_count(const WinogradPiece& piece, const TileGroups& groups) {
  return groups.is_one() ? read_blocks * block * 9 * columns
                         : piece.channels * 9 * piece.piece_channels;
}

constexpr std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace troupe::cpu::winograd_sizes
