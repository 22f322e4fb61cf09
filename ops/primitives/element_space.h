#pragma once
#include "ops/pass.h"

namespace troupe::primitives {

/// The memory of a tensor as an index space: the axes of its shape, and in nchw16c the place within
/// a block of channels as a fifth axis.
struct ElementSpace {
  Shape sizes;
  ElementPlaces places;

  static ElementSpace of(const Shape& shape, Layout layout);
};

/// The layout itself if each axis of a shape is one axis of its space, else nhwc.
constexpr Layout strided(Layout layout) {
  return layout == Layout::nchw16c ? Layout::nhwc : layout;
}

/// The tensor of this shape and layout whose elements lie at these places of x, as a view if they
/// lie there in order without gaps, else copied.
Tensor gather(const Pass& pass, const Tensor& x, const ElementPlaces& places, const Shape& shape);

/// The range [start, start + count) of an axis of x, in the layout of x; in nchw16c, a range of
/// channels begins and ends between blocks.
Tensor slice(const Pass& pass, const Tensor& x, int axis, std::int64_t start, std::int64_t count);

/// Writes `part` over that range of an axis of `whole`, which has the same layout.
void write_slice(const Pass& pass, const Tensor& part, int axis, std::int64_t start, Tensor& whole);

}  // namespace troupe::primitives
