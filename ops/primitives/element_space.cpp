#include "ops/primitives/element_space.h"

#include <algorithm>
#include <vector>

namespace troupe::primitives {
namespace {

constexpr std::int64_t block = 16;  // channels of nchw16c

Shape with_size(const Shape& shape, int axis, std::int64_t size) {
  std::vector<std::int64_t> sizes(shape.dims().begin(), shape.dims().end());
  sizes[static_cast<std::size_t>(axis)] = size;
  return Shape(std::span<const std::int64_t>(sizes));
}

/// The space of a range of an axis, at its places within the whole.
ElementSpace space_of_range(const Tensor& whole, int axis, std::int64_t start, std::int64_t count) {
  ElementSpace space = ElementSpace::of(whole.shape(), whole.layout());
  const std::int64_t unit = whole.layout() == Layout::nchw16c && axis == 1 ? block : 1;
  space.places.offset = start / unit * space.places.strides[static_cast<std::size_t>(axis)];
  space.sizes = with_size(space.sizes, axis, count / unit);
  return space;
}

/// Whether the elements lie one behind the other in the order of the shape.
bool in_order(const ElementPlaces& places, const Shape& shape) {
  std::int64_t stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && places.strides[static_cast<std::size_t>(axis)] != stride) return false;
    stride *= shape[axis];
  }
  return true;
}

}  // namespace

ElementSpace ElementSpace::of(const Shape& shape, Layout layout) {
  ElementSpace space{shape, {}};
  auto& strides = space.places.strides;
  if (layout == Layout::nhwc) {
    strides = {shape[1] * shape[2] * shape[3], 1, shape[1] * shape[3], shape[1], 0, 0};
    return space;
  }
  if (layout == Layout::nchw16c)
    space.sizes = Shape{shape[0], shape[1] / block, shape[2], shape[3], block};
  std::int64_t stride = 1;
  for (int axis = space.sizes.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = stride;
    stride *= space.sizes[axis];
  }
  return space;
}

Tensor gather(const Pass& pass, const Tensor& x, const ElementPlaces& places, const Shape& shape) {
  if (in_order(places, shape)) {
    const auto begin = static_cast<std::size_t>(x.raw() - x.storage()->data()) +
                       static_cast<std::size_t>(places.offset) * size_of(x.dtype());
    return Tensor::view(x.storage(), begin, shape, x.dtype());
  }
  Tensor y = Tensor::empty(shape, x.dtype(), pass.stream.device);
  pass.kernels().copy_elements(pass.stream, shape, x, places, y,
                               ElementSpace::of(shape, Layout::row_major).places);
  return y;
}

Tensor slice(const Pass& pass, const Tensor& x, int axis, std::int64_t start, std::int64_t count) {
  if (axis == 0) return x.narrow(start, count);
  const ElementSpace from = space_of_range(x, axis, start, count);
  const Shape shape = with_size(x.shape(), axis, count);
  Tensor y = Tensor::empty(shape, x.dtype(), pass.stream.device, x.layout());
  pass.kernels().copy_elements(pass.stream, from.sizes, x, from.places, y,
                               ElementSpace::of(shape, x.layout()).places);
  return y;
}

void write_slice(const Pass& pass, const Tensor& part, int axis, std::int64_t start,
                 Tensor& whole) {
  const ElementSpace to = space_of_range(whole, axis, start, part.dim(axis));
  pass.kernels().copy_elements(pass.stream, to.sizes, part,
                               ElementSpace::of(part.shape(), part.layout()).places, whole,
                               to.places);
}

}  // namespace troupe::primitives
