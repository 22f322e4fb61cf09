#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// The loops over a tensor in the order of its memory, and the steps of its operands in theirs, so
/// that one kernel serves all shapes and layouts. Axes of one element are left out, and neighbours
/// that every operand passes in one step are merged: [N, C, H, W] with [N, C, 1, 1] has the axes
///
///   layout      axes (step of the second operand)
///   row_major   N C (1), H W (0)
///   nhwc        N (C), H W (0), C (1)
///   nchw16c     N C/16 (16), H W (0), 16 (1)
struct BroadcastPlan {
  static constexpr int max_axes = Shape::max_rank + 1;
  static constexpr int max_operands = 3;
  struct Axis {
    std::int64_t size = 0;
    std::array<std::int64_t, max_operands> steps{};  ///< of the operands; 0: repeated
  };
  std::array<Axis, max_axes> axes{};
  int rank = 0;  ///< at least 1

  /// Of a tensor of this shape and layout and its operands, each of the first one's type (or, for
  /// its sums, the type that it is computed in), of the same rank and in a layout that
  /// kernel_list.inc permits. Throws Error{bad_shape} naming the operation for others.
  static BroadcastPlan of(const char* operation, const Shape& shape, Layout layout,
                          std::initializer_list<const Tensor*> operands);

  const Axis& inner() const { return axes[static_cast<std::size_t>(rank - 1)]; }
  /// The number of rows: the innermost axis is one row.
  std::int64_t rows() const;
};

/// Shape and layout of KernelTable::arithmetic's result.
struct BroadcastForm {
  Shape shape;
  Layout layout = Layout::row_major;
};
/// If the ranks differ, the shape of a: BroadcastPlan::of then refuses b.
BroadcastForm broadcast_form(const Tensor& a, const Tensor& b);

}  // namespace troupe
