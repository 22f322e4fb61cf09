#pragma once
#include <cstdint>
#include <string_view>

namespace troupe {

/// How the elements of a tensor lie in memory. The shape always names (N, C, H, W) in that order.
///
/// The fastest convolutions want channels innermost (`nhwc`) or in blocks of sixteen
/// (`nchw16c`, oneDNN's NC/16HW16). A chain of layers keeps one layout; only its ends reorder.
enum class Layout : std::uint8_t {
  row_major,  ///< the last axis is innermost; any rank
  nhwc,       ///< rank 4, channels innermost
  nchw16c,    ///< rank 4, channels a multiple of 16: [N][C/16][H][W][16]
};

constexpr Layout last_enumerator(Layout) { return Layout::nchw16c; }

std::string_view name_of(Layout layout);

}  // namespace troupe
