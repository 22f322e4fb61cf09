#include "runtime/tensor/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "runtime/error.h"

namespace troupe {

Shape::Shape(std::span<const std::int64_t> dims) : rank_(static_cast<int>(dims.size())) {
  if (dims.size() > max_rank)
    throw Error(ErrorCode::bad_shape,
                fmt::format("a shape of {} axes; at most {} are possible", dims.size(), max_rank),
                "join axes that lie side by side");
  std::int64_t count = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    dims_[axis] = dims[axis];
    // 2^56 elements leave room for any element size in a signed 64-bit byte count. Zeros count as
    // ones, so that the axes beside them stay small too.
    const std::int64_t factor = std::max<std::int64_t>(1, dims[axis]);
    if (dims[axis] < 0 || __builtin_mul_overflow(count, factor, &count) ||
        count > (std::int64_t{1} << 56))
      throw Error(ErrorCode::bad_shape,
                  fmt::format("shape [{}] is negative or too large at axis {}",
                              fmt::join(dims, ", "), axis));
  }
}

std::int64_t Shape::dim(int axis) const {
  const int index = axis < 0 ? axis + rank_ : axis;
  if (index < 0 || index >= rank_)
    throw Error(ErrorCode::bad_shape,
                fmt::format("axis {} of shape {}: it has {} axes", axis, to_string(*this), rank_));
  return (*this)[index];
}

std::int64_t Shape::element_count() const {
  std::int64_t count = 1;
  for (std::int64_t dim : dims()) count *= dim;
  return count;
}

Shape Shape::with_outer(std::int64_t size) const {
  dim(0);  // throws for a scalar
  std::array<std::int64_t, max_rank> sizes = dims_;
  sizes[0] = size;
  return Shape(std::span<const std::int64_t>(sizes.data(), static_cast<std::size_t>(rank_)));
}

std::string to_string(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape.dims(), ", "));
}

}  // namespace troupe
