// What both directions of Winograd's algorithm share, compiled once for each instruction set.
// Include after hwy/foreach_target.h.

#if defined(TROUPE_OPS_CPU_WINOGRAD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_OPS_CPU_WINOGRAD_INL_H_
#undef TROUPE_OPS_CPU_WINOGRAD_INL_H_
#else
#define TROUPE_OPS_CPU_WINOGRAD_INL_H_
#endif

#include "ops/cpu/simd-inl.h"
#include "ops/cpu/winograd_sizes.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {
namespace {

using namespace winograd_sizes;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr std::int64_t lanes = hn::MaxLanes(D());

HWY_INLINE V set(float x) { return hn::Set(D(), x); }

/// The points at which polynomials are multiplied, but for 0 and infinity: p, -p, q, -q.
constexpr float p = 0.625f, q = 1.5f, p2 = p * p, q2 = q * q;
constexpr float at_zero = 1 / (p2 * q2);          // 1 / m'(0)
constexpr float at_p = 1 / (2 * p2 * (p2 - q2));  // 1 / m'(p) = 1 / m'(-p)
constexpr float at_q = 1 / (2 * q2 * (q2 - p2));

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

/// Transforms both sides of what get(row, column) gives, [from][from] -> [to][to], and calls
/// put(row, column, value). `transform` applies one of the matrices.
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

}  // namespace
}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
