#include "runtime/image/resize.h"

#include <algorithm>
#include <cmath>

namespace troupe {
namespace {

constexpr int weight_bits = 22;
constexpr std::int32_t half = 1 << (weight_bits - 1);

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> weight_bits, 0, 255));
}

}  // namespace

ResizeAxis::ResizeAxis(std::int64_t from, std::int64_t size, std::int64_t to, std::int64_t first,
                       std::int64_t count) {
  const double scale = static_cast<double>(size) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);  // half the width of the triangle
  std::vector<double> triangle;
  for (std::int64_t output = first; output < first + count; ++output) {
    const double center = (static_cast<double>(output) + 0.5) * scale;
    const auto begin = std::max<std::int64_t>(0, static_cast<std::int64_t>(center - support + 0.5));
    const auto end = std::min(size, static_cast<std::int64_t>(center + support + 0.5));
    triangle.clear();
    double sum = 0;
    for (std::int64_t input = begin; input < end; ++input) {
      const double distance = (static_cast<double>(input) - center + 0.5) * (1.0 / support);
      triangle.push_back(std::max(0.0, 1.0 - std::abs(distance)));
      sum += triangle.back();
    }
    spans_.push_back({from + begin, end - begin, static_cast<std::int64_t>(weights_.size())});
    for (const double weight : triangle)
      weights_.push_back(static_cast<std::int32_t>(0.5 + weight / sum * (1 << weight_bits)));
  }
}

ResizeAxis::Taps ResizeAxis::operator[](std::int64_t output) const {
  const Span& span = spans_[static_cast<std::size_t>(output)];
  return {span.first, span.count, weights_.data() + span.weights};
}

namespace {

void resize_row(const std::uint8_t* row, std::int64_t step, const ResizeAxis& columns,
                std::uint8_t* out) {
  for (std::int64_t x = 0; x < columns.size(); ++x) {
    const ResizeAxis::Taps taps = columns[x];
    const std::uint8_t* pixel = row + taps.first * step;
    std::int32_t sum = half;
    for (std::int64_t i = 0; i < taps.count; ++i, pixel += step) sum += *pixel * taps.weights[i];
    out[x] = rounded(sum);
  }
}

}  // namespace

void resize(const PixelPlane& from, const ResizeAxis& columns, const ResizeAxis& rows,
            std::uint8_t* out) {
  if (rows.size() == 0) return;
  const std::int64_t width = columns.size();
  const ResizeAxis::Taps last = rows[rows.size() - 1];
  const std::int64_t top = rows[0].first, bottom = last.first + last.count;
  std::vector<std::uint8_t> narrow(static_cast<std::size_t>((bottom - top) * width));
  for (std::int64_t y = top; y < bottom; ++y)
    resize_row(from.pixels + y * from.next_row, from.next_pixel, columns,
               narrow.data() + (y - top) * width);
  std::vector<std::int32_t> sums(static_cast<std::size_t>(width));
  for (std::int64_t y = 0; y < rows.size(); ++y, out += width) {
    const ResizeAxis::Taps taps = rows[y];
    std::fill(sums.begin(), sums.end(), half);
    for (std::int64_t i = 0; i < taps.count; ++i) {
      const std::uint8_t* row = narrow.data() + (taps.first - top + i) * width;
      const std::int32_t weight = taps.weights[i];
      for (std::int64_t x = 0; x < width; ++x) sums[static_cast<std::size_t>(x)] += row[x] * weight;
    }
    std::transform(sums.begin(), sums.end(), out, rounded);
  }
}

}  // namespace troupe
