#pragma once
// Tensors that are known when a file is read: constants, and what follows from shapes.

#include <cstdint>
#include <optional>
#include <vector>

#include "ops/graph/graph.h"
#include "ops/graph/onnx_node.h"
#include "ops/graph/size_arithmetic.h"

namespace troupe::graph::onnx {

/// A row-major tensor of numbers. Computed in f64 and i64, whatever `dtype` the file states.
struct Numbers {
  DType dtype = DType::i64;
  Shape shape;
  std::vector<double> reals;   ///< of floating-point types
  std::vector<Size> integers;  ///< of other types; true is 1

  bool is_real() const { return is_floating(dtype); }
  std::int64_t count() const { return shape.element_count(); }
};

/// Limits the elements of all Numbers of a file together, since a few bytes can ask for any number
/// of them.
class Budget {
 public:
  /// Throws Error (unsupported) naming the node.
  void take(const NodeView& node, std::int64_t elements);
  /// The elements of a result of this shape. Throws as take, and takes nothing.
  std::int64_t count(const NodeView& node, const std::vector<std::int64_t>& dims) const;
  /// An empty tensor of this many elements.
  Numbers make(const NodeView& node, DType dtype, const std::vector<std::int64_t>& dims);

 private:
  void check(const NodeView& node, std::int64_t elements) const;

  std::int64_t left_ = most_made_elements;
};

/// The elements of a tensor of the file. Scalars are read as shortest_decimal if they are f32.
Numbers numbers_of(const NodeView& node, const StoredTensor& tensor, Budget& budget);

/// As a row-major tensor of f64 or i64; nothing where an integer depends on the samples.
std::optional<Tensor> tensor_of(const Numbers& numbers);

using graph::sizes_of;
/// Integers as sizes; whole ones. Refuse the node where they are none.
Sizes sizes_of(const NodeView& node, const Numbers& numbers);
std::vector<std::int64_t> fixed_integers_of(const NodeView& node, const Numbers& numbers);
std::int64_t fixed_integer_of(const NodeView& node, const Numbers& numbers);
/// The only element, as f64.
double real_of(const NodeView& node, const Numbers& numbers);

/// An axis that counts from the end if it is negative, as one from the beginning.
int axis_of(const NodeView& node, std::int64_t axis, int rank);

/// The broadcast of two shapes; refuses the node where there is none.
std::vector<std::int64_t> broadcast_dims(const NodeView& node, const Shape& a, const Shape& b);

/// For each element of `dims`, row-major, the index of the element of `from` that broadcasts there.
std::vector<std::size_t> broadcast_indices(const NodeView& node,
                                           const std::vector<std::int64_t>& dims, const Shape& from,
                                           const Budget& budget);

/// The elements of `from` at these indices, under a shape of as many elements.
Numbers gather(const NodeView& node, const Numbers& from, const std::vector<std::int64_t>& dims,
               const std::vector<std::size_t>& indices, Budget& budget);

/// Elements of an axis that a Slice takes.
struct Range {
  int axis = 0;
  std::int64_t start = 0, step = 1, count = 0;
};
/// A Slice of one axis of this size, by ONNX's rules for negative and large bounds.
Range slice_range(const NodeView& node, int axis, std::int64_t size, std::int64_t start,
                  std::int64_t end, std::int64_t step);

}  // namespace troupe::graph::onnx
