// Copies between strided places of memory, among them those from one layout to another.

#include <algorithm>
#include <vector>

#include "ops/copy_axes.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/index_space.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/numbers.h"
#include "runtime/error.h"

namespace troupe::cuda {
namespace {

using Axis = CopyAxis;

template <class Element>
__global__ void copy_kernel(IndexSpace<2> space, const Element* from, Element* to) {
  for (std::int64_t i = first_index(); i < space.count(); i += grid_threads()) {
    const auto places = space.places(i);
    to[places.of[1]] = from[places.of[0]];
  }
}

template <class Element>
void copy_lines(const Stream& stream, std::span<const Axis> axes, const Element* from,
                Element* to) {
  IndexSpace<2> space;
  for (const Axis& axis : axes) space.add(axis.size, {{axis.from, axis.to}});
  Launch(stream, blocks_for(space.count()), block_threads)(copy_kernel<Element>, space, from, to);
}

/// Whether all of a copy is of 16 bytes that lie in one piece in both tensors.
template <class T>
bool copies_packs(std::span<const Axis> axes, const T* from, const T* to) {
  const Axis& inner = axes.back();
  if (inner.from != 1 || inner.to != 1 || inner.size % pack_width<T> != 0) return false;
  return aligned_for_packs(from, to) &&
         std::ranges::all_of(axes.first(axes.size() - 1), [](const Axis& axis) {
           return axis.from % pack_width<T> == 0 && axis.to % pack_width<T> == 0;
         });
}

template <class T>
void copy_packs(const Stream& stream, std::vector<Axis> axes, const T* from, T* to) {
  using Packed = Pack<T, pack_width<T>>;
  axes.back().size /= pack_width<T>;
  for (Axis& axis : std::span(axes).first(axes.size() - 1))
    axis.from /= pack_width<T>, axis.to /= pack_width<T>;
  copy_lines(stream, axes, reinterpret_cast<const Packed*>(from), reinterpret_cast<Packed*>(to));
}

constexpr int tile = 32;  // a warp reads a line of it, and writes one

/// Planes to transpose: neighbours along the outer axis are neighbours in `from`, those along the
/// inner axis in `to`.
struct Transposition {
  Axis outer, inner;
  IndexSpace<4> tiles;  ///< places: in from; in to; on the outer axis; on the inner axis
};

/// By tiles in shared memory, so that reads and writes are both of whole lines.
template <class T>
__global__ void transpose_kernel(Transposition t, const T* from, T* to) {
  __shared__ T lines[tile][tile + 1];  // one more, so that columns lie in different banks
  const int lane = static_cast<int>(threadIdx.x) % tile;
  const int first = static_cast<int>(threadIdx.x) / tile;
  const int lines_at_once = static_cast<int>(blockDim.x) / tile;
  for (std::int64_t number = blockIdx.x; number < t.tiles.count(); number += gridDim.x) {
    const auto places = t.tiles.places(number);
    const T* source = from + places.of[0];
    T* target = to + places.of[1];
    const std::int64_t outer = t.outer.size - places.of[2], inner = t.inner.size - places.of[3];
    for (int line = first; line < tile; line += lines_at_once)
      if (lane < outer && line < inner) lines[line][lane] = source[lane + line * t.inner.from];
    __syncthreads();
    for (int line = first; line < tile; line += lines_at_once)
      if (line < outer && lane < inner) target[line * t.outer.to + lane] = lines[lane][line];
    __syncthreads();
  }
}

/// Narrower planes would leave most of a tile empty.
bool transposes(std::span<const Axis> axes) {
  constexpr std::int64_t least = 8;
  if (axes.size() < 2) return false;
  const Axis &inner = axes.back(), &outer = axes[axes.size() - 2];
  return outer.from == 1 && inner.to == 1 && outer.size >= least && inner.size >= least;
}

template <class T>
void transpose(const Stream& stream, std::span<const Axis> axes, const T* from, T* to) {
  Transposition t{.outer = axes[axes.size() - 2], .inner = axes.back(), .tiles = {}};
  for (const Axis& axis : axes.first(axes.size() - 2))
    t.tiles.add(axis.size, {{axis.from, axis.to, 0, 0}});
  const auto tiles_of = [](const Axis& axis) { return (axis.size + tile - 1) / tile; };
  t.tiles.add(tiles_of(t.inner), {{tile * t.inner.from, tile, 0, tile}});
  t.tiles.add(tiles_of(t.outer), {{tile, tile * t.outer.to, tile, 0}});
  Launch(stream, blocks_for(t.tiles.count(), 1), block_threads)(transpose_kernel<T>, t, from, to);
}

template <class T>
void copy_as(const Stream& stream, const Shape& space, const Tensor& from,
             const ElementPlaces& from_places, const Tensor& to, const ElementPlaces& to_places) {
  const std::vector<Axis> axes = copy_axes(space, from_places, to_places);
  const T* source = input<T>(stream, from) + from_places.offset;
  T* target = output<T>(stream, to) + to_places.offset;
  if (copies_packs<T>(axes, source, target)) return copy_packs(stream, axes, source, target);
  if (transposes(axes)) return transpose<T>(stream, axes, source, target);
  copy_lines<T>(stream, axes, source, target);
}

/// As [N, C, H W]. Throws Error{unsupported} for blocks of channels.
ElementPlaces image_places(const Tensor& tensor) {
  const std::int64_t channels = tensor.dim(1), plane = tensor.dim(2) * tensor.dim(3);
  if (tensor.layout() == Layout::row_major) return {0, {channels * plane, plane, 1}};
  if (tensor.layout() == Layout::nhwc) return {0, {channels * plane, 1, channels}};
  throw Error(ErrorCode::unsupported, "reorder: a GPU has no tensors in nchw16c",
              "use the layouts row_major and nhwc");
}

}  // namespace

void copy_elements(const Stream& stream, const Shape& space, const Tensor& from,
                   const ElementPlaces& from_places, Tensor& to, const ElementPlaces& to_places) {
  if (space.element_count() == 0) return;
  if (from.dtype() == DType::i64)
    return copy_as<std::int64_t>(stream, space, from, from_places, to, to_places);
  visit_stored(from.dtype(), [&]<class S>(S, auto) {
    copy_as<S>(stream, space, from, from_places, to, to_places);
  });
}

void reorder(const Stream& stream, const Tensor& from, Tensor& to) {
  if (from.shape() != to.shape() || from.dtype() != to.dtype())
    check_alike("reorder", from, to);  // throws
  if (from.layout() == to.layout()) return copy(stream, from, to);
  const Shape images{from.dim(0), from.dim(1), from.dim(2) * from.dim(3)};
  copy_elements(stream, images, from, image_places(from), to, image_places(to));
}

}  // namespace troupe::cuda
