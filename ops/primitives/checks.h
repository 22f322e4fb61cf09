#pragma once
// What the primitives check and arrange before a kernel runs.

#include <string_view>

#include "ops/pass.h"

namespace troupe::primitives {

/// Throws Error{bad_shape} naming the primitive unless x is (N, C, H, W) and has `channels`
/// channels. A negative `channels` permits any number.
void check_images(std::string_view primitive, const Tensor& x, std::int64_t channels = -1);

/// Throws Error{bad_shape} unless the window has a stride, fits into the padded image, and its
/// padding is at most half of it, so that no window lies wholly in padding (PyTorch's rule).
void check_window(std::string_view primitive, const Tensor& x, const PoolOptions& options);

/// The axis, counted from the front; a negative one counts from the end. Throws Error{bad_shape}
/// naming the primitive if the shape does not have it.
int checked_axis(std::string_view primitive, const Shape& shape, int axis);

/// The tensor itself if it has this layout, else a reordered copy. Images of one pixel or of one
/// channel lie the same in every layout: a view of the same memory.
Tensor in_layout(const Pass& pass, const Tensor& tensor, Layout layout);

}  // namespace troupe::primitives
