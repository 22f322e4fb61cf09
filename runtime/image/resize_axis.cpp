#include <algorithm>
#include <cmath>

#include "runtime/image/resize.h"
#include "runtime/image/resize_kernels.h"

namespace troupe {

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

}  // namespace troupe
