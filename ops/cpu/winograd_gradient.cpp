// The weight gradient of Winograd's algorithm, in the groups of tiles of winograd.cpp: 32 channels
// of the output at a time, with some channels of x.

#include <cstring>

#include "ops/cpu/targets.h"
#include "ops/cpu/winograd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/winograd_gradient.cpp"
#include <hwy/foreach_target.h>

#include "ops/cpu/winograd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {
namespace {

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

/// kernels (+)= G^T m G of the sums, [36][channel that is read][count]; kernels are
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
            float* const at = kernels + (i * 9 + (row * 3 + column)) * count + c;
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

void winograd_piece_gradient(const WinogradPiece& piece, const float* x, const float* grad,
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

using namespace winograd_sizes;

HWY_EXPORT(winograd_piece_gradient);

std::size_t winograd_gradient_bytes(const WinogradPiece& piece, bool shares_tiles) {
  const TileGroups groups(piece);
  const std::int64_t tiles = shares_tiles ? 0 : groups.by_channels(piece.channels).element;
  const std::int64_t gradients = groups.size * piece.piece_channels + gap;
  return bytes_of(elements * (tiles + gradients + kernel_element) + total_count(piece, groups));
}

void winograd_piece_gradient(const WinogradPiece& piece, const float* x, const float* grad,
                             float* weight_grad, const float* shared_tiles, std::byte* memory) {
  HWY_DYNAMIC_DISPATCH(winograd_piece_gradient)
  (piece, x, grad, weight_grad, shared_tiles, reinterpret_cast<float*>(memory));
}

}  // namespace troupe::cpu
#endif
