#include "runtime/image/resize.h"

#include <algorithm>

#include "runtime/image/resize_kernels.h"

namespace troupe {
namespace {

/// The rows of the image that the output needs, by columns. The last row of an image is copied:
/// the kernel reads four bytes at each pixel, and beyond the image there may be no memory.
std::vector<std::uint8_t> resized_columns(const Pixels& from, const ResizeAxis& columns,
                                          const ResizeAxis& rows, std::int64_t stride) {
  std::vector<std::uint8_t> narrow(static_cast<std::size_t>((rows.end() - rows.begin()) * stride));
  const std::int64_t row_bytes = from.channels * from.size.width;
  std::uint8_t* out = narrow.data();
  for (std::int64_t y = rows.begin(); y < rows.end(); ++y, out += stride) {
    const std::uint8_t* row = from.bytes + y * row_bytes;
    if (y + 1 < from.size.height) {
      resize_columns(row, from.channels, columns, out);
      continue;
    }
    std::vector<std::uint8_t> last(row, row + row_bytes);
    last.resize(last.size() + resized_pixel);
    resize_columns(last.data(), from.channels, columns, out);
  }
  return narrow;
}

}  // namespace

void resize(const Pixels& from, const ResizeAxis& columns, const ResizeAxis& rows,
            std::uint8_t* out) {
  const std::int64_t width = columns.size(), plane = width * rows.size();
  const std::int64_t stride =
      (width * resized_pixel + resized_padding - 1) / resized_padding * resized_padding;
  const std::vector<std::uint8_t> narrow = resized_columns(from, columns, rows, stride);
  std::vector<std::uint8_t> row(static_cast<std::size_t>(stride));
  for (std::int64_t y = 0; y < rows.size(); ++y, out += width) {
    const ResizeAxis::Taps taps = rows[y];
    resize_rows(narrow.data() + (taps.first - rows.begin()) * stride, stride, taps, row.data());
    for (std::int64_t channel = 0; channel < from.channels; ++channel) {
      const std::uint8_t* pixel = row.data() + channel;
      for (std::int64_t x = 0; x < width; ++x) out[channel * plane + x] = pixel[x * resized_pixel];
    }
  }
}

}  // namespace troupe
