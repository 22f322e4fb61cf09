#pragma once
// The two passes of a resampling, for the processor at hand.

#include <cstdint>

#include "runtime/image/resize.h"

namespace troupe {

inline constexpr int weight_bits = 22;  ///< of a weight's fraction

/// Between the passes a pixel has four bytes, and rows are padded to whole vectors.
inline constexpr std::int64_t resized_pixel = 4, resized_padding = 64;

/// One row by columns: pixel x to out[4 x], …. Pixels are `step` bytes apart, and four bytes of
/// each are read; the result has meaning where they belong to it.
void resize_columns(const std::uint8_t* row, std::int64_t step, const ResizeAxis& columns,
                    std::uint8_t* out);

/// One row by rows: the weighted sum of `taps.count` rows, the first at `from`, each of `stride`
/// bytes, a multiple of resized_padding. Writes `stride` bytes.
void resize_rows(const std::uint8_t* from, std::int64_t stride, const ResizeAxis::Taps& taps,
                 std::uint8_t* out);

}  // namespace troupe
