#include "ops/broadcast_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "ops/widened.h"
#include "runtime/error.h"

namespace troupe {
namespace {

/// A loop of a tensor: an axis of its shape, or a part of the channels that nchw16c divides.
struct Loop {
  enum class Part : std::uint8_t { whole, block, lane };
  int axis;
  Part part;
};

std::vector<Loop> loops_of(const Shape& shape, Layout layout) {
  using enum Loop::Part;
  if (layout == Layout::nhwc) return {{0, whole}, {2, whole}, {3, whole}, {1, whole}};
  if (layout == Layout::nchw16c) return {{0, whole}, {1, block}, {2, whole}, {3, whole}, {1, lane}};
  std::vector<Loop> loops;
  loops.reserve(static_cast<std::size_t>(shape.rank()));
  for (int axis = 0; axis < shape.rank(); ++axis) loops.push_back({axis, whole});
  return loops;
}

std::int64_t size_of(const Loop& loop, const Shape& shape) {
  if (loop.part == Loop::Part::block) return shape[loop.axis] / 16;
  return loop.part == Loop::Part::lane ? 16 : shape[loop.axis];
}

/// The distance in the operand's memory between elements of neighbouring loop iterations. The
/// operand is row-major or has the layout that the loops iterate over.
std::int64_t step_of(const std::vector<Loop>& loops, std::size_t place, const Tensor& operand) {
  const Loop& loop = loops[place];
  const Shape& shape = operand.shape();
  if (shape[loop.axis] == 1) return 0;
  std::int64_t step = 1;
  if (operand.layout() == Layout::row_major) {
    for (int axis = loop.axis + 1; axis < shape.rank(); ++axis) step *= shape[axis];
    return loop.part == Loop::Part::block ? 16 * step : step;
  }
  for (std::size_t later = place + 1; later < loops.size(); ++later)
    step *= size_of(loops[later], shape);
  return step;
}

bool fits(DType dtype, const Shape& shape, Layout layout, const Tensor& operand) {
  const Shape& own = operand.shape();
  const bool alike = operand.dtype() == dtype || operand.dtype() == computed_type(dtype);
  if (!alike || own.rank() != shape.rank()) return false;
  for (int axis = 0; axis < shape.rank(); ++axis)
    if (own[axis] != 1 && own[axis] != shape[axis]) return false;
  if (operand.layout() == layout) return true;
  return operand.layout() == Layout::row_major && (own[1] == 1 || own[2] * own[3] == 1);
}

void check(const char* operation, DType dtype, const Shape& shape, Layout layout,
           const Tensor& operand) {
  if (operand.defined() && fits(dtype, shape, layout, operand)) return;
  throw Error(
      ErrorCode::bad_shape,
      fmt::format("{}: an operand of {} {} in {} cannot be broadcast to {} {} in {}", operation,
                  name_of(operand.dtype()), to_string(operand.shape()), name_of(operand.layout()),
                  name_of(dtype), to_string(shape), name_of(layout)),
      "each of its axes must have the size of the result's or 1");
}

}  // namespace

BroadcastPlan BroadcastPlan::of(const char* operation, const Shape& shape, Layout layout,
                                std::initializer_list<const Tensor*> operands) {
  const DType dtype = (*operands.begin())->dtype();
  for (const Tensor* operand : operands) check(operation, dtype, shape, layout, *operand);
  BroadcastPlan plan;
  const std::vector<Loop> loops = loops_of(shape, layout);
  for (std::size_t place = 0; place < loops.size(); ++place) {
    Axis axis{.size = size_of(loops[place], shape), .steps = {}};
    if (axis.size == 1) continue;
    std::ranges::transform(operands, axis.steps.begin(),
                           [&](const Tensor* operand) { return step_of(loops, place, *operand); });
    bool merges = plan.rank > 0;
    if (merges) {
      const Axis& outer = plan.axes[static_cast<std::size_t>(plan.rank - 1)];
      for (std::size_t i = 0; i < axis.steps.size(); ++i)
        merges = merges && outer.steps[i] == axis.steps[i] * axis.size;
      if (merges) axis.size *= outer.size;
    }
    if (!merges) ++plan.rank;
    plan.axes[static_cast<std::size_t>(plan.rank - 1)] = axis;
  }
  if (plan.rank > 0) return plan;
  plan.rank = 1;
  plan.axes[0].size = 1;
  return plan;
}

std::int64_t BroadcastPlan::rows() const {
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < rank; ++axis) rows *= axes[static_cast<std::size_t>(axis)].size;
  return rows;
}

BroadcastForm broadcast_form(const Tensor& a, const Tensor& b) {
  if (a.rank() != b.rank()) return {a.shape(), a.layout()};
  std::vector<std::int64_t> sizes;
  for (int axis = 0; axis < a.rank(); ++axis)
    sizes.push_back(a.shape()[axis] == 1 ? b.shape()[axis] : a.shape()[axis]);
  const Shape shape{std::span<const std::int64_t>(sizes)};
  if (a.shape() == shape) return {shape, a.layout()};
  return {shape, b.shape() == shape ? b.layout() : Layout::row_major};
}

}  // namespace troupe
