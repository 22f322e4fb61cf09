// Copies between strided places of memory.

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "ops/copy_axes.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/reference/kernels.h"

namespace troupe::cpu {
namespace {

using Axis = CopyAxis;

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

template <class T>
void copy_line(const T* from, const Axis& axis, T* to) {
  if (axis.from == 1 && axis.to == 1) {
    std::memcpy(to, from, static_cast<std::size_t>(axis.size) * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < axis.size; ++i) to[i * axis.to] = from[i * axis.from];
}

/// A plane whose outer axis lies dense in `from` and whose inner axis lies dense in `to`, in blocks
/// of whole cache lines.
template <class T>
void transpose(const T* from, const Axis& outer, const Axis& inner, T* to) {
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

template <class T>
void copy_lines(const Stream& stream, std::span<const Axis> axes, const T* from, T* to) {
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
template <class T>
void copy_planes(const Stream& stream, std::span<const Axis> axes, const T* from, T* to) {
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

template <class T>
void copy_axes_of(const Stream& stream, std::span<const Axis> axes, const T* from, T* to) {
  const Axis inner = axes.back();
  const bool transposes =
      axes.size() > 1 && axes[axes.size() - 2].from == 1 && inner.to == 1 && inner.from > 1;
  (transposes ? copy_planes<T> : copy_lines<T>)(stream, axes, from, to);
}

}  // namespace

void copy_elements(const Stream& stream, const Shape& space, const Tensor& from,
                   const ElementPlaces& from_places, Tensor& to, const ElementPlaces& to_places) {
  if (from.dtype() != DType::f32 && from.dtype() != DType::f64)
    return reference::copy_elements(stream, space, from, from_places, to, to_places);
  if (space.element_count() == 0) return;
  const std::vector<Axis> axes = copy_axes(space, from_places, to_places);
  if (from.dtype() == DType::f64)
    copy_axes_of<double>(stream, axes, from.data<double>() + from_places.offset,
                         to.data<double>() + to_places.offset);
  else
    copy_axes_of<float>(stream, axes, from.data<float>() + from_places.offset,
                        to.data<float>() + to_places.offset);
}

}  // namespace troupe::cpu
