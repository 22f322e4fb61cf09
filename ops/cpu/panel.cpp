#include "ops/cpu/panel.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "ops/cpu/parallel.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

// Large enough that the work around a piece vanishes, small enough that its f32 sums are exact to
// the last bits and that two threads share even a small tensor evenly.
constexpr std::int64_t piece_target = 8192;

}  // namespace

Panel Panel::of(const Tensor& x, const char* operation) {
  const Shape& shape = x.shape();
  if ((shape.rank() != 2 && shape.rank() != 4) || shape.element_count() == 0)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}; it must be [N, C] or [N, C, H, W] and not empty",
                            operation, to_string(shape)));
  const std::int64_t channels = shape[1];
  const std::int64_t plane = shape.rank() == 4 ? shape[2] * shape[3] : 1;
  Panel panel;
  if (x.layout() == Layout::nchw16c) {
    panel.run_channels = 16;
    panel.run_length = plane * 16;
  } else if (x.layout() == Layout::nhwc || plane == 1) {
    panel.run_channels = channels;
    panel.run_length = shape.element_count();
  } else {
    panel.run_channels = 1;
    panel.run_length = plane;
  }
  panel.groups = channels / panel.run_channels;
  panel.runs = shape.element_count() / panel.run_length;
  panel.period = std::lcm(panel.run_channels, std::int64_t{64});
  const std::int64_t wanted =
      std::max<std::int64_t>(1, (panel.run_length + piece_target - 1) / piece_target);
  const std::int64_t periods = (panel.run_length + panel.period - 1) / panel.period;
  panel.piece_length = (periods + wanted - 1) / wanted * panel.period;
  panel.run_pieces = (panel.run_length + panel.piece_length - 1) / panel.piece_length;
  return panel;
}

Piece Panel::piece(std::int64_t index) const {
  Piece piece;
  piece.run = index / run_pieces;
  piece.begin = index % run_pieces * piece_length;
  piece.length = std::min(piece_length, run_length - piece.begin);
  piece.offset = piece.run * run_length + piece.begin;
  piece.group = piece.run % groups;
  return piece;
}

std::int64_t Panel::grain() const {
  return std::max<std::int64_t>(1, elements_per_thread / std::min(piece_length, run_length));
}

template <class T>
void Panel::fill_tiles(const T* values, T* tiles) const {
  for (std::int64_t group = 0; group < groups; ++group) {
    T* tile = tiles + group * period;
    std::copy_n(values + group * run_channels, run_channels, tile);
    for (std::int64_t filled = run_channels; filled < period; filled *= 2)
      std::copy_n(tile, std::min(filled, period - filled), tile + filled);
  }
}
template void Panel::fill_tiles(const float*, float*) const;
template void Panel::fill_tiles(const double*, double*) const;

}  // namespace troupe::cpu
