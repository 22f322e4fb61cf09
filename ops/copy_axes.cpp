#include "ops/copy_axes.h"

#include <algorithm>
#include <functional>

namespace troupe {
namespace {

/// Merges each axis with the one inside of it if both are one stretch.
std::vector<CopyAxis> merged(const std::vector<CopyAxis>& axes) {
  std::vector<CopyAxis> result;
  for (const CopyAxis& axis : axes) {
    if (!result.empty() && result.back().from == axis.size * axis.from &&
        result.back().to == axis.size * axis.to)
      result.back() = {result.back().size * axis.size, axis.from, axis.to};
    else
      result.push_back(axis);
  }
  return result;
}

}  // namespace

std::vector<CopyAxis> copy_axes(const Shape& space, const ElementPlaces& from,
                                const ElementPlaces& to) {
  std::vector<CopyAxis> axes;
  for (int axis = 0; axis < space.rank(); ++axis) {
    const auto i = static_cast<std::size_t>(axis);
    if (space[axis] != 1) axes.push_back({space[axis], from.strides[i], to.strides[i]});
  }
  std::ranges::stable_sort(axes, std::greater(), &CopyAxis::to);
  axes = merged(axes);
  const auto dense = std::ranges::find(axes, 1, &CopyAxis::from);
  if (std::ssize(axes) > 2 && dense < axes.end() - 2) std::rotate(dense, dense + 1, axes.end() - 1);
  if (axes.empty()) axes.push_back({1, 1, 1});
  return axes;
}

}  // namespace troupe
