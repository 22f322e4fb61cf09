// A piece is computed in groups of tiles: all tiles of a group are transformed, then, for 32
// channels of the result at a time, the kernels of some channels that are read, and multiplied. The
// matrices that are multiplied at a time, the kernels and the sums of a group stay in a core's
// cache. To transform all kernels once, for all groups and pieces, takes longer: they have four
// times the size of the weights (Zen 4).

#include "ops/cpu/winograd.h"

#include <type_traits>

#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/winograd.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {
namespace {

/// A^T m: row i holds the i-th powers of the points.
struct TransformSums {
  HWY_INLINE void operator()(const V (&m)[6], V (&to)[4]) const {
    const V p_even = hn::Add(m[1], m[2]), p_odd = hn::Sub(m[1], m[2]);
    const V q_even = hn::Add(m[3], m[4]), q_odd = hn::Sub(m[3], m[4]);
    to[0] = hn::Add(m[0], hn::Add(p_even, q_even));
    to[1] = hn::MulAdd(set(p), p_odd, hn::Mul(set(q), q_odd));
    to[2] = hn::MulAdd(set(p2), p_even, hn::Mul(set(q2), q_even));
    to[3] = hn::MulAdd(set(p2 * p), p_odd, hn::MulAdd(set(q2 * q), q_odd, m[5]));
  }
};

/// G g: row i holds the powers of point i, divided by m'(point i).
struct TransformKernel {
  HWY_INLINE void operator()(const V (&g)[3], V (&to)[6]) const {
    to[0] = hn::Mul(set(at_zero), g[0]);
    const V p_even = hn::MulAdd(set(p2 * at_p), g[2], hn::Mul(set(at_p), g[0]));
    const V p_odd = hn::Mul(set(p * at_p), g[1]);
    to[1] = hn::Add(p_even, p_odd);
    to[2] = hn::Sub(p_even, p_odd);
    const V q_even = hn::MulAdd(set(q2 * at_q), g[2], hn::Mul(set(at_q), g[0]));
    const V q_odd = hn::Mul(set(q * at_q), g[1]);
    to[3] = hn::Add(q_even, q_odd);
    to[4] = hn::Sub(q_even, q_odd);
    to[5] = g[2];
  }
};

/// G g G^T of the kernels of `blocks` blocks of channels that are read, from `read` on, and `count`
/// that are written, from `channel` on: [36][channel that is read][count].
void transform_kernels(const WinogradWeights& weights, std::int64_t read, std::int64_t blocks,
                       std::int64_t channel, std::int64_t count, std::int64_t element, float* to) {
  const D d;
  for (std::int64_t c = 0; c < count; c += lanes)
    for (std::int64_t r = 0; r < blocks; ++r)
      for (std::int64_t i = 0; i < block; ++i) {
        const std::int64_t at = channel + c;
        const float* const kernel = weights.data + (read + r) * weights.read_stride +
                                    at / block * weights.written_stride + i * block + at % block;
        transform_both<3, 6>(
            [&](int row, int column) HWY_ATTR {
              const int tap = row * 3 + column;
              return hn::Load(d, kernel + (weights.flipped ? 8 - tap : tap) * block * block);
            },
            TransformKernel(),
            [&](int row, int column, V value) HWY_ATTR {
              hn::Store(value, d, to + (row * 6 + column) * element + (r * block + i) * count + c);
            });
      }
}

/// sums[tile][column] (+)= tiles[channel block][tile][channel] x kernels[channel][column], for
/// `count` tiles and `vectors` vectors of columns.
template <int count, int vectors>
HWY_INLINE void multiply(const float* tiles, std::int64_t next_block, const float* kernels,
                         std::int64_t blocks, std::int64_t width, bool add, float* sums) {
  const D d;
  V sum[count][vectors];
  for (int t = 0; t < count; ++t)
    for (int v = 0; v < vectors; ++v)
      sum[t][v] = add ? hn::Load(d, sums + t * width + v * lanes) : hn::Zero(d);
  for (std::int64_t b = 0; b < blocks; ++b, tiles += next_block)
    for (std::int64_t i = 0; i < block; ++i, kernels += width) {
      V kernel[vectors];
      for (int v = 0; v < vectors; ++v) kernel[v] = hn::Load(d, kernels + v * lanes);
      for (int t = 0; t < count; ++t) {
        const V pixel = set(tiles[t * block + i]);
        for (int v = 0; v < vectors; ++v) sum[t][v] = hn::MulAdd(pixel, kernel[v], sum[t][v]);
      }
    }
  for (int t = 0; t < count; ++t)
    for (int v = 0; v < vectors; ++v) hn::Store(sum[t][v], d, sums + t * width + v * lanes);
}

/// The same for `count` tiles, a multiple of 4, and all columns.
template <int vectors>
void multiply_row_as(std::int64_t count, const float* tiles, std::int64_t next_block,
                     const float* kernels, std::int64_t blocks, std::int64_t width, bool add,
                     float* sums) {
  for (std::int64_t column = 0; column < width; column += vectors * lanes)
    for (std::int64_t t = 0; t < count;) {
      const std::int64_t left = count - t;
      const auto call = [&](auto tag) HWY_ATTR {
        constexpr int n = decltype(tag)::value;
        multiply<n, vectors>(tiles + t * block, next_block, kernels + column, blocks, width, add,
                             sums + t * width + column);
        t += n;
      };
      if (left >= 12)
        call(std::integral_constant<int, 12>());
      else if (left >= 8)
        call(std::integral_constant<int, 8>());
      else
        call(std::integral_constant<int, 4>());
    }
}

void multiply_row(std::int64_t count, const float* tiles, std::int64_t next_block,
                  const float* kernels, std::int64_t blocks, std::int64_t width, bool add,
                  float* sums) {
  if (width >= 2 * lanes)
    multiply_row_as<2>(count, tiles, next_block, kernels, blocks, width, add, sums);
  else
    multiply_row_as<1>(count, tiles, next_block, kernels, blocks, width, add, sums);
}

/// A^T m A of the sums, [36][tile][count], plus the bias, into the output.
void write_tiles(const WinogradPiece& piece, const float* sums, std::int64_t element,
                 std::int64_t first, std::int64_t tiles, std::int64_t channel, std::int64_t count,
                 const float* bias, float* to) {
  const D d;
  const std::int64_t plane = piece.out_height * piece.out_width * block;
  for (std::int64_t c = 0; c < count; c += lanes)
    for (std::int64_t t = 0; t < tiles; ++t) {
      const Tile tile(piece, first + t);
      const std::int64_t at = channel + c;
      const V offset = bias ? hn::LoadU(d, bias + at) : hn::Zero(d);
      float* const pixels =
          to + (tile.sample * (piece.out_channels / block) + at / block) * plane + at % block;
      const float* const from = sums + t * count + c;
      transform_both<6, 4>(
          [&](int row, int column)
              HWY_ATTR { return hn::Load(d, from + (row * 6 + column) * element); },
          TransformSums(),
          [&](int i, int j, V value) HWY_ATTR {
            const std::int64_t row = tile.row + i, column = tile.column + j;
            if (row < piece.out_height && column < piece.out_width)
              hn::Store(hn::Add(value, offset), d,
                        pixels + (row * piece.out_width + column) * block);
          });
    }
}

}  // namespace

void winograd_tiles(const WinogradPiece& piece, const float* from, std::int64_t read, bool by_rows,
                    float* to) {
  const TileGroups all(piece);
  const TileOrder order = by_rows ? all.by_rows(piece.channels) : all.by_channels(piece.channels);
  transform_tiles(piece, from, read, 1, 0, all.tiles, by_rows ? round_up(all.tiles, 4) : all.tiles,
                  order, to);
}

void winograd_piece(const WinogradPiece& piece, const float* from, const WinogradWeights& weights,
                    const float* bias, float* to, const float* shared_tiles, float* memory) {
  const TileGroups groups(piece);
  const TileOrder order = groups.by_rows(piece.channels);
  float* const kernels = memory;
  float* const sums = kernels + elements * kernel_element;
  float* const own_tiles = sums + elements * sum_element;
  const float* const tiles = shared_tiles ? shared_tiles : own_tiles;
  for (std::int64_t first = 0; first < groups.tiles; first += groups.size) {
    const std::int64_t count = std::min(groups.size, groups.tiles - first);
    const std::int64_t padded = round_up(count, 4);
    if (!shared_tiles)
      transform_tiles(piece, from, 0, piece.channels / block, first, count, padded, order,
                      own_tiles);
    for_columns(piece, [&](std::int64_t channel, std::int64_t width) HWY_ATTR {
      for_read_blocks(piece, [&](std::int64_t read, std::int64_t blocks) HWY_ATTR {
        transform_kernels(weights, read, blocks, channel, width, kernel_element, kernels);
        for (std::int64_t e = 0; e < elements; ++e)
          for (std::int64_t t = 0; t < padded; t += rows)
            multiply_row(std::min(rows, padded - t), tiles + e * order.element + order.at(t, read),
                         order.channels, kernels + e * kernel_element, blocks, width, read > 0,
                         sums + e * sum_element + t * width);
      });
      write_tiles(piece, sums, sum_element, first, count, channel, width, bias, to);
    });
  }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

using namespace winograd_sizes;

HWY_EXPORT(winograd_tiles);
HWY_EXPORT(winograd_piece);

std::int64_t winograd_tile_count(const WinogradPiece& piece, bool by_rows) {
  const TileGroups groups(piece);
  const TileOrder order =
      by_rows ? groups.by_rows(piece.channels) : groups.by_channels(piece.channels);
  return groups.is_one() ? elements * order.element : 0;
}

void winograd_tiles(const WinogradPiece& piece, const float* from, std::int64_t read, bool by_rows,
                    float* to) {
  HWY_DYNAMIC_DISPATCH(winograd_tiles)(piece, from, read, by_rows, to);
}

std::size_t winograd_bytes(const WinogradPiece& piece, bool shares_tiles) {
  const std::int64_t tiles = shares_tiles ? 0 : TileGroups(piece).by_rows(piece.channels).element;
  return bytes_of(elements * (tiles + kernel_element + sum_element));
}

void winograd_piece(const WinogradPiece& piece, const float* from, const WinogradWeights& weights,
                    const float* bias, float* to, const float* shared_tiles, std::byte* memory) {
  HWY_DYNAMIC_DISPATCH(winograd_piece)
  (piece, from, weights, bias, to, shared_tiles, reinterpret_cast<float*>(memory));
}

}  // namespace troupe::cpu
#endif
