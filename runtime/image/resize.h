#pragma once
// Resizing of 8-bit images, with the bits of Pillow's `resize(size, BILINEAR)`.

#include <cstdint>
#include <vector>

#include "runtime/image/image.h"

namespace troupe {

/// One axis of a resampling: each output pixel is a weighted sum of consecutive input pixels.
///
/// The filter is a triangle. Where the image shrinks it is as much wider, which prevents aliasing
/// (torchvision: `antialias=True`). Weights are integers in units of 2^-22.
class ResizeAxis {
 public:
  /// Resizes input pixels [from, from + size) to `to` pixels; computes only the outputs
  /// [first, first + count) of them.
  ResizeAxis(std::int64_t from, std::int64_t size, std::int64_t to, std::int64_t first,
             std::int64_t count);

  struct Taps {
    std::int64_t first = 0;                 ///< input pixel
    std::int64_t count = 0;                 ///< of input pixels
    const std::int32_t* weights = nullptr;  ///< of each
  };
  std::int64_t size() const { return static_cast<std::int64_t>(spans_.size()); }  ///< outputs
  Taps operator[](std::int64_t output) const {
    const Span& span = spans_[static_cast<std::size_t>(output)];
    return {span.first, span.count, weights_.data() + span.weights};
  }
  /// The input pixels of all outputs: [begin(), end()).
  std::int64_t begin() const { return spans_.front().first; }
  std::int64_t end() const { return spans_.back().first + spans_.back().count; }

 private:
  struct Span {
    std::int64_t first, count, weights;
  };
  std::vector<Span> spans_;
  std::vector<std::int32_t> weights_;
};

/// Pixels in memory without gaps, from 1 to 4 bytes each.
struct Pixels {
  const std::uint8_t* bytes = nullptr;
  ImageSize size;
  std::int64_t channels = 3;
};

/// Writes the channels one after the other, each as rows.size() rows of columns.size() bytes. Each
/// axis rounds to 8 bits, columns first. Neither axis is empty.
void resize(const Pixels& from, const ResizeAxis& columns, const ResizeAxis& rows,
            std::uint8_t* out);

}  // namespace troupe
