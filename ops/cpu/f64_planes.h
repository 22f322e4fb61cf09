#pragma once
// How a convolution in f64 becomes sums of products of shifted planes. An input is copied into
// planes with zeroes around it, one for each phase of the stride, so that the inputs of one kernel
// element are a plane at an offset, and all outputs of a sample, a gap at the end of each row
// included, are one range of columns. The gradient of the input is such a sum of the output's
// gradient for each phase.

#include <algorithm>
#include <cstdint>

namespace troupe::cpu {

inline constexpr std::int64_t widest = 8;  // lanes of a vector, to which columns are rounded up
inline std::int64_t rounded_up(std::int64_t count) {
  return (count + widest - 1) / widest * widest;
}

/// One axis of an image. Where it is padded, input i is number i + padding; the numbers with the
/// same rest by the stride are a phase.
struct Axis {
  std::int64_t in, out, kernel, stride, padding;

  std::int64_t phases() const { return std::min(stride, kernel); }
  std::int64_t phase_size() const { return out + (kernel - 1) / stride; }

  // Of the input's gradient: number u of a phase meets kernel element a + stride * j and output u -
  // j.
  std::int64_t first() const { return padding / stride; }
  std::int64_t count() const { return (in - 1 + padding) / stride + 1 - first(); }
  std::int64_t reach() const { return (kernel - 1) / stride; }
  std::int64_t taps(std::int64_t phase) const {
    return phase < kernel ? (kernel - 1 - phase) / stride + 1 : 0;
  }
};

/// The planes of one sample.
struct Planes {
  std::int64_t channels, height, width;

  std::int64_t size() const { return height * width; }
  // A vector that begins at the last output may end past the last plane.
  std::int64_t elements() const { return rounded_up(channels * size() + width + 2 * widest); }
};

}  // namespace troupe::cpu
