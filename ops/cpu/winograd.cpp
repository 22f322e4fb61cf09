// A piece is computed in groups of tiles whose transforms stay in a core's cache: all tiles of a
// group are transformed, then, for 32 channels of the result at a time, the kernels of some
// channels that are read, and multiplied.

#include "ops/cpu/winograd.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ops/cpu/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/winograd.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/simd-inl.h"

#ifndef TROUPE_OPS_CPU_WINOGRAD_SIZES_
#define TROUPE_OPS_CPU_WINOGRAD_SIZES_
namespace troupe::cpu {
namespace {

constexpr std::int64_t block = 16;    // channels next to each other in nchw16c
constexpr std::int64_t columns = 32;  // channels of the result that are computed at a time
constexpr std::int64_t read_blocks =
    4;                             // blocks of channels whose kernels are transformed at a time
constexpr std::int64_t rows = 12;  // tiles whose sums are in registers at a time
constexpr std::int64_t most_tiles = 144;  // of a group
constexpr std::int64_t elements = 36;     // of a transformed tile
// Between the matrices of two elements, so that the 36 do not compete for the same lines of a
// cache.
constexpr std::int64_t gap = 5 * 16;

/// The points at which polynomials are multiplied, but for 0 and infinity: p, -p, q, -q.
constexpr float p = 0.625f, q = 1.5f, p2 = p * p, q2 = q * q;

constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// From the matrix of one element to that of the next.
constexpr std::int64_t kernel_element = read_blocks * block * columns + gap;
constexpr std::int64_t sum_element = most_tiles * columns + gap;

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
std::int64_t total_count(const WinogradPiece& piece, const TileGroups& groups) {
  return groups.is_one() ? read_blocks * block * 9 * columns
                         : piece.channels * 9 * piece.piece_channels;
}

}  // namespace
}  // namespace troupe::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {
namespace {

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr std::int64_t lanes = hn::MaxLanes(D());

HWY_INLINE V set(float x) { return hn::Set(D(), x); }

/// B^T d: row i holds the coefficients of m(t) / (t - point i), m(t) = t (t^2 - p^2) (t^2 - q^2).
struct TransformPixels {
  HWY_INLINE void operator()(const V (&d)[6], V (&to)[6]) const {
    const V sum = set(p2 + q2), product = set(p2 * q2);
    to[0] = hn::NegMulAdd(sum, d[2], hn::MulAdd(product, d[0], d[4]));
    const V p_even = hn::NegMulAdd(set(q2), d[2], d[4]);
    const V p_odd = hn::Mul(set(p), hn::NegMulAdd(set(q2), d[1], d[3]));
    to[1] = hn::Add(p_even, p_odd);
    to[2] = hn::Sub(p_even, p_odd);
    const V q_even = hn::NegMulAdd(set(p2), d[2], d[4]);
    const V q_odd = hn::Mul(set(q), hn::NegMulAdd(set(p2), d[1], d[3]));
    to[3] = hn::Add(q_even, q_odd);
    to[4] = hn::Sub(q_even, q_odd);
    to[5] = hn::NegMulAdd(sum, d[3], hn::MulAdd(product, d[1], d[5]));
  }
};

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

/// A y.
struct TransformGradient {
  HWY_INLINE void operator()(const V (&y)[4], V (&to)[6]) const {
    const V p_even = hn::MulAdd(set(p2), y[2], y[0]);
    const V p_odd = hn::MulAdd(set(p2 * p), y[3], hn::Mul(set(p), y[1]));
    const V q_even = hn::MulAdd(set(q2), y[2], y[0]);
    const V q_odd = hn::MulAdd(set(q2 * q), y[3], hn::Mul(set(q), y[1]));
    to[0] = y[0];
    to[1] = hn::Add(p_even, p_odd);
    to[2] = hn::Sub(p_even, p_odd);
    to[3] = hn::Add(q_even, q_odd);
    to[4] = hn::Sub(q_even, q_odd);
    to[5] = y[3];
  }
};

constexpr float at_zero = 1 / (p2 * q2);          // 1 / m'(0)
constexpr float at_p = 1 / (2 * p2 * (p2 - q2));  // 1 / m'(p) = 1 / m'(-p)
constexpr float at_q = 1 / (2 * q2 * (q2 - p2));

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

/// G^T m.
struct TransformKernelGradient {
  HWY_INLINE void operator()(const V (&m)[6], V (&to)[3]) const {
    const V p_even = hn::Add(m[1], m[2]), p_odd = hn::Sub(m[1], m[2]);
    const V q_even = hn::Add(m[3], m[4]), q_odd = hn::Sub(m[3], m[4]);
    to[0] =
        hn::MulAdd(set(at_zero), m[0], hn::MulAdd(set(at_p), p_even, hn::Mul(set(at_q), q_even)));
    to[1] = hn::MulAdd(set(p * at_p), p_odd, hn::Mul(set(q * at_q), q_odd));
    to[2] = hn::MulAdd(set(p2 * at_p), p_even, hn::MulAdd(set(q2 * at_q), q_even, m[5]));
  }
};

/// Transforms both sides of what get(row, column) gives, [from][from] -> [to][to], and calls
/// put(row, column, value). `transform` is one of the functions above.
template <int from, int to, class Get, class Transform, class Put>
HWY_INLINE void transform_both(const Get& get, const Transform& transform, const Put& put) {
  V half[to][from];
  for (int column = 0; column < from; ++column) {
    V in[from], out[to];
    for (int row = 0; row < from; ++row) in[row] = get(row, column);
    transform(in, out);
    for (int row = 0; row < to; ++row) half[row][column] = out[row];
  }
  for (int row = 0; row < to; ++row) {
    V out[to];
    transform(half[row], out);
    for (int column = 0; column < to; ++column) put(row, column, out[column]);
  }
}

/// Where a tile begins.
struct Tile {
  std::int64_t sample = 0, row = 0, column = 0;

  Tile(const WinogradPiece& piece, std::int64_t index) {
    const std::int64_t across = (piece.out_width + 3) / 4;
    const std::int64_t of_sample = (piece.out_height + 3) / 4 * across;
    sample = index / of_sample;
    row = index % of_sample / across * 4;
    column = index % across * 4;
  }
};

/// B^T d B of the tiles from `first` on, of these blocks of channels that are read; zeros for tiles
/// after `count`, up to `padded`.
void transform_tiles(const WinogradPiece& piece, const float* from, std::int64_t read,
                     std::int64_t blocks, std::int64_t first, std::int64_t count,
                     std::int64_t padded, const TileOrder& order, float* tiles) {
  const D d;
  const std::int64_t plane = piece.height * piece.width * block;
  for (std::int64_t channels = read; channels < read + blocks; ++channels)
    for (std::int64_t t = 0; t < padded; ++t)
      for (std::int64_t lane = 0; lane < block; lane += lanes) {
        float* const to = tiles + order.at(t, channels) + lane;
        const auto put = [&](int row, int column, V value) HWY_ATTR {
          hn::Store(value, d, to + (row * 6 + column) * order.element);
        };
        if (t >= count) {
          for (int i = 0; i < elements; ++i) put(0, i, hn::Zero(d));
          continue;
        }
        const Tile tile(piece, first + t);
        const std::int64_t top = tile.row - piece.padding_h, left = tile.column - piece.padding_w;
        const float* const pixels =
            from + (tile.sample * (piece.channels / block) + channels) * plane + lane;
        const auto pixel = [&](std::int64_t row, std::int64_t column) {
          return pixels + (row * piece.width + column) * block;
        };
        if (top >= 0 && left >= 0 && top + 6 <= piece.height && left + 6 <= piece.width)
          transform_both<6, 6>(
              [&](int row, int column)
                  HWY_ATTR { return hn::Load(d, pixel(top + row, left + column)); },
              TransformPixels(), put);
        else
          transform_both<6, 6>(
              [&](int i, int j) HWY_ATTR {
                const std::int64_t row = top + i, column = left + j;
                const bool inside =
                    row >= 0 && row < piece.height && column >= 0 && column < piece.width;
                return inside ? hn::Load(d, pixel(row, column)) : hn::Zero(d);
              },
              TransformPixels(), put);
      }
}

/// A dy A^T of tiles of the output's gradient, of `count` channels from `channel` on:
/// [36][tile][count].
void transform_gradients(const WinogradPiece& piece, const float* grad, std::int64_t first,
                         std::int64_t tiles, std::int64_t channel, std::int64_t count,
                         std::int64_t element, float* to) {
  const D d;
  const std::int64_t plane = piece.out_height * piece.out_width * block;
  for (std::int64_t c = 0; c < count; c += lanes)
    for (std::int64_t t = 0; t < tiles; ++t) {
      const Tile tile(piece, first + t);
      const std::int64_t at = channel + c;
      const float* const pixels =
          grad + (tile.sample * (piece.out_channels / block) + at / block) * plane + at % block;
      transform_both<4, 6>(
          [&](int i, int j) HWY_ATTR {
            const std::int64_t row = tile.row + i, column = tile.column + j;
            const bool inside = row < piece.out_height && column < piece.out_width;
            return inside ? hn::Load(d, pixels + (row * piece.out_width + column) * block)
                          : hn::Zero(d);
          },
          TransformGradient(),
          [&](int row, int column, V value)
              HWY_ATTR { hn::Store(value, d, to + (row * 6 + column) * element + t * count + c); });
    }
}

/// G g G^T of the kernels from channel block `read` to `channel` and the following: [36][channel
/// that is read][count].
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

/// sums[channel][column] = tiles[tile][channel]^T x gradients[tile][column], of 16 channels.
template <int vectors>
void multiply_gradients_as(const float* tiles, const float* gradients, std::int64_t count,
                           std::int64_t width, float* sums) {
  const D d;
  constexpr int together = 8;
  for (std::int64_t column = 0; column < width; column += vectors * lanes)
    for (std::int64_t channel = 0; channel < block; channel += together) {
      V sum[together][vectors];
      for (int i = 0; i < together; ++i)
        for (int v = 0; v < vectors; ++v) sum[i][v] = hn::Zero(d);
      for (std::int64_t t = 0; t < count; ++t) {
        V gradient[vectors];
        for (int v = 0; v < vectors; ++v)
          gradient[v] = hn::Load(d, gradients + t * width + column + v * lanes);
        for (int i = 0; i < together; ++i) {
          const V pixel = set(tiles[t * block + channel + i]);
          for (int v = 0; v < vectors; ++v) sum[i][v] = hn::MulAdd(pixel, gradient[v], sum[i][v]);
        }
      }
      for (int i = 0; i < together; ++i)
        for (int v = 0; v < vectors; ++v)
          hn::Store(sum[i][v], d, sums + (channel + i) * width + column + v * lanes);
    }
}

void multiply_gradients(const float* tiles, const float* gradients, std::int64_t count,
                        std::int64_t width, float* sums) {
  if (width >= 2 * lanes)
    multiply_gradients_as<2>(tiles, gradients, count, width, sums);
  else
    multiply_gradients_as<1>(tiles, gradients, count, width, sums);
}

/// Adds G^T m G of the sums, [36][channel that is read][count], to kernels of
/// [channel][3][3][count].
void add_kernel_gradients(const float* sums, std::int64_t element, std::int64_t channels,
                          std::int64_t count, bool add, float* kernels) {
  const D d;
  for (std::int64_t i = 0; i < channels; ++i)
    for (std::int64_t c = 0; c < count; c += lanes)
      transform_both<6, 3>(
          [&](int row, int column)
              HWY_ATTR { return hn::Load(d, sums + (row * 6 + column) * element + i * count + c); },
          TransformKernelGradient(),
          [&](int row, int column, V value) HWY_ATTR {
            float* const at = kernels + (i * 9 + row * 3 + column) * count + c;
            hn::Store(add ? hn::Add(value, hn::Load(d, at)) : value, d, at);
          });
}

/// Writes four rows of `lanes` columns, each `next` floats behind the one before, as columns of
/// `to`, whose rows are `row` floats apart.
HWY_INLINE void write_columns(const float* from, std::int64_t next, float* to,
                              [[maybe_unused]] std::int64_t row) {
#if HWY_TARGET == HWY_SCALAR
  for (std::int64_t i = 0; i < 4; ++i) to[i] = from[i * next];
#else
  const D d;
  const hn::Repartition<double, D> pairs;
  const V a = hn::Load(d, from), b = hn::Load(d, from + next);
  const V c = hn::Load(d, from + 2 * next), e = hn::Load(d, from + 3 * next);
  // Of each four columns, the first two and the last two, of two rows.
  const auto ab_low = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
  const auto ab_high = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
  const auto ce_low = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
  const auto ce_high = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
  alignas(64) float columns_of[4][lanes];  // [column % 4][column / 4][row]
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, ab_low, ce_low)), d, columns_of[0]);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_low, ce_low)), d, columns_of[1]);
  hn::Store(hn::BitCast(d, hn::InterleaveLower(pairs, ab_high, ce_high)), d, columns_of[2]);
  hn::Store(hn::BitCast(d, hn::InterleaveUpper(pairs, ab_high, ce_high)), d, columns_of[3]);
  for (std::int64_t column = 0; column < lanes; ++column)
    std::memcpy(to + column * row, columns_of[column % 4] + column / 4 * 4, 4 * sizeof(float));
#endif
}

/// Copies kernels of [channel that is read][3][3][count] into the row-major weights.
void write_kernels(const WinogradPiece& piece, const float* kernels, std::int64_t read,
                   std::int64_t blocks, std::int64_t channel, std::int64_t count, float* weights) {
  constexpr std::int64_t run = block * 9;
  const std::int64_t row = piece.channels * 9;
  for (std::int64_t r = 0; r < blocks; ++r)
    for (std::int64_t c = 0; c < count; c += lanes)
      for (std::int64_t i = 0; i < run; i += 4)
        write_columns(kernels + (r * run + i) * count + c, count,
                      weights + (channel + c) * row + (read + r) * run + i, row);
}

}  // namespace

void winograd_tiles(const WinogradPiece& piece, const float* from, std::int64_t read, bool by_rows,
                    float* to) {
  const TileGroups all(piece);
  const TileOrder order = by_rows ? all.by_rows(piece.channels) : all.by_channels(piece.channels);
  transform_tiles(piece, from, read, 1, 0, all.tiles, by_rows ? round_up(all.tiles, 4) : all.tiles,
                  order, to);
}

void winograd(const WinogradPiece& piece, const float* from, const WinogradWeights& weights,
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

void winograd_weight_gradient(const WinogradPiece& piece, const float* x, const float* grad,
                              float* weight_grad, const float* shared_tiles, float* memory) {
  const TileGroups groups(piece);
  const TileOrder order = groups.by_channels(piece.channels);
  const std::int64_t gradient_element = groups.size * piece.piece_channels + gap;
  float* const gradients = memory;
  float* const sums = gradients + elements * gradient_element;
  float* const totals = sums + elements * kernel_element;
  float* const own_tiles = totals + total_count(piece, groups);
  const float* const tiles = shared_tiles ? shared_tiles : own_tiles;
  for (std::int64_t first = 0; first < groups.tiles; first += groups.size) {
    const std::int64_t count = std::min(groups.size, groups.tiles - first);
    const bool is_last = first + groups.size >= groups.tiles;
    const auto gradients_of = [&](std::int64_t channel) {
      return gradients + (channel - piece.first_channel) * groups.size;
    };
    if (!shared_tiles)
      transform_tiles(piece, x, 0, piece.channels / block, first, count, count, order, own_tiles);
    for_columns(piece, [&](std::int64_t channel, std::int64_t width) HWY_ATTR {
      transform_gradients(piece, grad, first, count, channel, width, gradient_element,
                          gradients_of(channel));
    });
    std::int64_t done = 0;  // of the totals
    for_read_blocks(piece, [&](std::int64_t read, std::int64_t blocks) HWY_ATTR {
      for_columns(piece, [&](std::int64_t channel, std::int64_t width) HWY_ATTR {
        for (std::int64_t e = 0; e < elements; ++e)
          for (std::int64_t b = 0; b < blocks; ++b)
            multiply_gradients(tiles + e * order.element + order.at(0, read + b),
                               gradients_of(channel) + e * gradient_element, count, width,
                               sums + e * kernel_element + b * block * width);
        float* const total = totals + (groups.is_one() ? 0 : done);
        add_kernel_gradients(sums, kernel_element, blocks * block, width, first > 0, total);
        done += blocks * block * 9 * width;
        if (is_last) write_kernels(piece, total, read, blocks, channel, width, weight_grad);
      });
    });
  }
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(winograd_tiles);
HWY_EXPORT(winograd);
HWY_EXPORT(winograd_weight_gradient);

namespace {

std::size_t bytes_of(std::int64_t floats) {
  return static_cast<std::size_t>(floats) * sizeof(float);
}

}  // namespace

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

void winograd(const WinogradPiece& piece, const float* from, const WinogradWeights& weights,
              const float* bias, float* to, const float* shared_tiles, std::byte* memory) {
  HWY_DYNAMIC_DISPATCH(winograd)
  (piece, from, weights, bias, to, shared_tiles, reinterpret_cast<float*>(memory));
}

std::size_t winograd_gradient_bytes(const WinogradPiece& piece, bool shares_tiles) {
  const TileGroups groups(piece);
  const std::int64_t tiles = shares_tiles ? 0 : groups.by_channels(piece.channels).element;
  const std::int64_t gradients = groups.size * piece.piece_channels + gap;
  return bytes_of(elements * (tiles + gradients + kernel_element) + total_count(piece, groups));
}

void winograd_weight_gradient(const WinogradPiece& piece, const float* x, const float* grad,
                              float* weight_grad, const float* shared_tiles, std::byte* memory) {
  HWY_DYNAMIC_DISPATCH(winograd_weight_gradient)
  (piece, x, grad, weight_grad, shared_tiles, reinterpret_cast<float*>(memory));
}

}  // namespace troupe::cpu
#endif
