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

template <class From, class To>
__device__ To moved(const From& element) {
  if constexpr (std::is_same_v<From, To>)
    return element;
  else
    return converted<To>(computed(element));
}

template <class From, class To>
__global__ void copy_kernel(IndexSpace<2> space, const From* from, To* to) {
  for (std::int64_t i = first_index(); i < space.count(); i += grid_threads()) {
    const auto places = space.places(i);
    to[places.of[1]] = moved<From, To>(from[places.of[0]]);
  }
}

template <class From, class To>
void copy_lines(const Stream& stream, std::span<const Axis> axes, const From* from, To* to) {
  IndexSpace<2> space;
  for (const Axis& axis : axes) space.add(axis.size, {{axis.from, axis.to}});
  Launch(stream, blocks_for(space.count()), block_threads)(copy_kernel<From, To>, space, from, to);
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

constexpr int tile_side = 32, tile_elements = tile_side * tile_side;
/// A line of a tile has one element more if it would be even: at most half more, of lines of two.
constexpr int tile_memory = tile_elements + tile_elements / 2;

/// Planes to transpose: neighbours along the outer axis are neighbours in `from`, those along the
/// inner axis in `to`.
struct Transposition {
  Axis outer, inner;
  int tile_outer, tile_inner;  ///< elements of a tile along each
  IndexSpace<4> tiles;         ///< places: in from; in to; on the outer axis; on the inner axis
};

/// By tiles in shared memory, so that reads and writes are both of whole lines.
template <class From, class To>
__global__ void transpose_kernel(Transposition t, const From* from, To* to) {
  __shared__ Unset<To> memory[tile_memory];
  To* lines = reinterpret_cast<To*>(memory);
  const int pitch = t.tile_outer | 1;  // odd, so that columns lie in different banks
  const int count = t.tile_outer * t.tile_inner, threads = static_cast<int>(blockDim.x);
  for (std::int64_t number = blockIdx.x; number < t.tiles.count(); number += gridDim.x) {
    const auto places = t.tiles.places(number);
    const From* source = from + places.of[0];
    To* target = to + places.of[1];
    const std::int64_t outer = t.outer.size - places.of[2], inner = t.inner.size - places.of[3];
    for (int e = static_cast<int>(threadIdx.x); e < count; e += threads) {
      const int o = e % t.tile_outer, i = e / t.tile_outer;
      if (o < outer && i < inner)
        lines[i * pitch + o] = moved<From, To>(source[o + i * t.inner.from]);
    }
    __syncthreads();
    for (int e = static_cast<int>(threadIdx.x); e < count; e += threads) {
      const int o = e / t.tile_inner, i = e % t.tile_inner;
      if (o < outer && i < inner) target[o * t.outer.to + i] = lines[i * pitch + o];
    }
    __syncthreads();
  }
}

bool transposes(std::span<const Axis> axes) {
  if (axes.size() < 2) return false;
  const Axis &inner = axes.back(), &outer = axes[axes.size() - 2];
  return outer.from == 1 && inner.to == 1;
}

/// The size of a tile along an axis: the longer, the narrower it is along the other one, such as
/// many channels of a convolution's few pixels.
int tile_along(const Axis& axis, const Axis& other) {
  const auto narrow = static_cast<int>(std::min<std::int64_t>(other.size, tile_side));
  const int most = tile_elements / narrow / tile_side * tile_side;
  return static_cast<int>(std::min<std::int64_t>(axis.size, most));
}

template <class From, class To>
void transpose(const Stream& stream, std::span<const Axis> axes, const From* from, To* to) {
  const Axis &outer = axes[axes.size() - 2], &inner = axes.back();
  Transposition t{.outer = outer, .inner = inner, .tile_outer = 0, .tile_inner = 0, .tiles = {}};
  t.tile_outer = tile_along(outer, inner);
  t.tile_inner = tile_along(inner, outer);
  for (const Axis& axis : axes.first(axes.size() - 2))
    t.tiles.add(axis.size, {{axis.from, axis.to, 0, 0}});
  const auto tiles_of = [](const Axis& axis, int tile) { return (axis.size + tile - 1) / tile; };
  t.tiles.add(tiles_of(inner, t.tile_inner),
              {{t.tile_inner * inner.from, t.tile_inner, 0, t.tile_inner}});
  t.tiles.add(tiles_of(outer, t.tile_outer),
              {{t.tile_outer, t.tile_outer * outer.to, t.tile_outer, 0}});
  Launch(stream, blocks_for(t.tiles.count(), 1), block_threads)(transpose_kernel<From, To>, t, from,
                                                                to);
}

template <class From, class To>
void copy_as(const Stream& stream, const Shape& space, const Tensor& from,
             const ElementPlaces& from_places, const Tensor& to, const ElementPlaces& to_places) {
  const std::vector<Axis> axes = copy_axes(space, from_places, to_places);
  const From* source = input<From>(stream, from) + from_places.offset;
  To* target = output<To>(stream, to) + to_places.offset;
  if constexpr (std::is_same_v<From, To>)
    if (copies_packs<To>(axes, source, target)) return copy_packs(stream, axes, source, target);
  if (transposes(axes)) return transpose(stream, axes, source, target);
  copy_lines(stream, axes, source, target);
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
    return copy_as<std::int64_t, std::int64_t>(stream, space, from, from_places, to, to_places);
  visit_conversion(from.dtype(), to.dtype(), [&]<class From, class To>(From, To) {
    copy_as<From, To>(stream, space, from, from_places, to, to_places);
  });
}

// The types may differ too, as those of copy.
void reorder(const Stream& stream, const Tensor& from, Tensor& to) {
  if (from.shape() != to.shape()) check_alike("reorder", from, to);  // throws
  if (from.layout() == to.layout()) return copy(stream, from, to);
  const Shape images{from.dim(0), from.dim(1), from.dim(2) * from.dim(3)};
  copy_elements(stream, images, from, image_places(from), to, image_places(to));
}

}  // namespace troupe::cuda
