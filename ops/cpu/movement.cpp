// Copies between strided places of memory, and sums over broadcast axes. An index space is first
// reduced to few axes: those of size 1 vanish, and neighbours that lie one behind the other in both
// tensors become one.

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/reference/kernels.h"

namespace troupe::cpu {
namespace {

struct Axis {
  std::int64_t size = 1, from = 0, to = 0;  ///< from, to: strides
};

/// Removes axes of size 1, and merges each axis with the one inside of it if both are one stretch.
std::vector<Axis> merged(const std::vector<Axis>& axes) {
  std::vector<Axis> result;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!result.empty() && result.back().from == axis.size * axis.from &&
        result.back().to == axis.size * axis.to)
      result.back() = {result.back().size * axis.size, axis.from, axis.to};
    else
      result.push_back(axis);
  }
  return result;
}

std::int64_t count_of(std::span<const Axis> axes) {
  std::int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  return count;
}

/// The places of element `number` of a space of these axes.
std::pair<std::int64_t, std::int64_t> places_of(std::span<const Axis> axes, std::int64_t number) {
  std::int64_t from = 0, to = 0;
  for (std::size_t i = axes.size(); i > 0; --i) {
    const Axis& axis = axes[i - 1];
    from += number % axis.size * axis.from;
    to += number % axis.size * axis.to;
    number /= axis.size;
  }
  return {from, to};
}

void copy_line(const float* from, const Axis& axis, float* to) {
  if (axis.from == 1 && axis.to == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(axis.size) * sizeof(float));
    return;
  }
  for (std::int64_t i = 0; i < axis.size; ++i) to[i * axis.to] = from[i * axis.from];
}

/// A plane whose outer axis lies dense in `from` and whose inner axis lies dense in `to`, in blocks
/// of whole cache lines.
void transpose(const float* from, const Axis& outer, const Axis& inner, float* to) {
  constexpr std::int64_t block = 16;
  for (std::int64_t o = 0; o < outer.size; o += block)
    for (std::int64_t i = 0; i < inner.size; i += block) {
      const std::int64_t o_end = std::min(outer.size, o + block);
      const std::int64_t i_end = std::min(inner.size, i + block);
      for (std::int64_t row = o; row < o_end; ++row)
        for (std::int64_t column = i; column < i_end; ++column)
          to[row * outer.to + column] = from[row + column * inner.from];
    }
}

/// The axes of a copy: the innermost of `to` last; where another is dense in `from`, that before.
std::vector<Axis> axes_of(const Shape& space, const ElementPlaces& from, const ElementPlaces& to) {
  std::vector<Axis> axes;
  for (int axis = 0; axis < space.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (space[axis] != 1) axes.push_back({space[axis], from.strides[i], to.strides[i]});
  }
  std::ranges::stable_sort(axes, std::greater(), &Axis::to);
  axes = merged(axes);
  const auto dense = std::ranges::find(axes, 1, &Axis::from);
  if (std::ssize(axes) > 2 && dense < axes.end() - 2) std::rotate(dense, dense + 1, axes.end() - 1);
  return axes;
}

void copy_lines(const Stream& stream, std::span<const Axis> axes, const float* from, float* to) {
  const Axis inner = axes.back();
  const auto outer = axes.first(axes.size() - 1);
  if (outer.empty()) {  // one stretch is divided too
    parallel(stream, inner.size, elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
      copy_line(from + begin * inner.from, {end - begin, inner.from, inner.to},
                to + begin * inner.to);
    });
    return;
  }
  parallel(stream, count_of(outer), elements_per_thread / inner.size + 1,
           [&](std::int64_t begin, std::int64_t end) {
             const Axis& next = outer.back();
             for (std::int64_t line = begin; line < end;) {
               auto [a, b] = places_of(outer, line);
               const std::int64_t stop = std::min(end, (line / next.size + 1) * next.size);
               for (; line < stop; ++line, a += next.from, b += next.to)
                 copy_line(from + a, inner, to + b);
             }
           });
}

/// Transposes planes of the last two axes, divided into strips of the outer one of them.
void copy_planes(const Stream& stream, std::span<const Axis> axes, const float* from, float* to) {
  const Axis inner = axes.back(), outer = axes[axes.size() - 2];
  const auto planes = axes.first(axes.size() - 2);
  constexpr std::int64_t strip = 64;
  const std::int64_t strips = (outer.size + strip - 1) / strip;
  const std::int64_t grain = elements_per_thread / (std::min(strip, outer.size) * inner.size) + 1;
  parallel(stream, count_of(planes) * strips, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) {
      const auto [a, b] = places_of(planes, number / strips);
      const std::int64_t first = number % strips * strip;
      transpose(from + a + first, {std::min(strip, outer.size - first), 1, outer.to}, inner,
                to + b + first * outer.to);
    }
  });
}

}  // namespace

void copy_elements(const Stream& stream, const Shape& space, const Tensor& from,
                   const ElementPlaces& from_places, Tensor& to, const ElementPlaces& to_places) {
  if (from.dtype() != DType::f32)
    return reference::copy_elements(stream, space, from, from_places, to, to_places);
  if (space.element_count() == 0) return;
  std::vector<Axis> axes = axes_of(space, from_places, to_places);
  if (axes.empty()) axes.push_back({1, 1, 1});
  const float* source = from.data<float>() + from_places.offset;
  float* target = to.data<float>() + to_places.offset;
  const Axis inner = axes.back();
  const bool transposes =
      axes.size() > 1 && axes[axes.size() - 2].from == 1 && inner.to == 1 && inner.from > 1;
  (transposes ? copy_planes : copy_lines)(stream, axes, source, target);
}

namespace {

/// Of the sums of a tensor: the axes that stay, whose last one is dense or has size 1, and those
/// that are added up.
struct SumAxes {
  std::vector<Axis> kept, summed;
  Axis inner = {1, 1, 1};
};

SumAxes sum_axes(const Shape& x, const Shape& shape) {
  SumAxes result;
  std::vector<Axis> axes;
  std::int64_t from = 1, to = 1;
  for (int axis = x.rank() - 1; axis >= 0; --axis) {
    const int own = axis - x.rank() + shape.rank();
    const bool stays = own >= 0 && shape[own] != 1;
    axes.push_back({x[axis], from, stays ? to : 0});
    from *= x[axis];
    if (stays) to *= shape[own];
  }
  std::ranges::reverse(axes);
  for (const Axis& axis : merged(axes))
    (axis.to == 0 ? result.summed : result.kept).push_back(axis);
  if (!result.kept.empty() && result.kept.back().from == 1) {
    result.inner = result.kept.back();
    result.kept.pop_back();
  }
  return result;
}

/// Adds up `count` neighbouring sums in f64, in the order of the summed axes.
void add_neighbours(const float* x, std::span<const Axis> summed, std::int64_t terms,
                    std::int64_t count, float* to) {
  constexpr std::int64_t most = 256;
  double sums[most];
  for (std::int64_t first = 0; first < count; first += most) {
    const std::int64_t width = std::min(most, count - first);
    std::fill_n(sums, width, 0.0);
    for (std::int64_t term = 0; term < terms; ++term) {
      const float* from = x + places_of(summed, term).first + first;
      for (std::int64_t i = 0; i < width; ++i) sums[i] += from[i];
    }
    for (std::int64_t i = 0; i < width; ++i) to[first + i] = static_cast<float>(sums[i]);
  }
}

/// The same for one sum, whose last axis is a stretch of memory or strided.
float sum_of(const float* x, std::span<const Axis> summed) {
  if (summed.empty()) return *x;
  const Axis& inner = summed.back();
  const auto outer = summed.first(summed.size() - 1);
  double sum = 0;
  for (std::int64_t term = 0, terms = count_of(outer); term < terms; ++term) {
    const float* from = x + places_of(outer, term).first;
    for (std::int64_t i = 0; i < inner.size; ++i) sum += from[i * inner.from];
  }
  return static_cast<float>(sum);
}

}  // namespace

Tensor sum_broadcast(const Stream& stream, const Tensor& x, const Shape& shape) {
  Tensor result = Tensor::empty(shape, DType::f32, stream.device);
  const SumAxes axes = sum_axes(x.shape(), shape);
  auto* const sums = result.data<float>();
  if (x.element_count() == 0) {
    std::ranges::fill(result.elements<float>(), 0.0f);
    return result;
  }
  const float* from = x.data<float>();
  const std::int64_t terms = count_of(axes.summed), width = axes.inner.size;
  constexpr std::int64_t columns = 64;  // of a piece
  const std::int64_t pieces = (width + columns - 1) / columns;
  const std::int64_t grain = elements_per_thread / (terms * std::min(width, columns)) + 1;
  parallel(stream, count_of(axes.kept) * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t number = begin; number < end; ++number) {
      const auto [a, b] = places_of(axes.kept, number / pieces);
      const std::int64_t first = number % pieces * columns;
      if (width == 1)
        sums[b] = sum_of(from + a, axes.summed);
      else
        add_neighbours(from + a + first, axes.summed, terms, std::min(columns, width - first),
                       sums + b + first);
    }
  });
  return result;
}

}  // namespace troupe::cpu
