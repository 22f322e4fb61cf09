#pragma once
#include <cstddef>
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// The description of a tensor without its elements: the information that a receiver needs before
/// the elements arrive. The route says on which device they arrive.
struct TensorMeta {
  Shape shape;
  DType dtype = DType::f32;
  Layout layout = Layout::row_major;

  static TensorMeta of(const Tensor& tensor) {
    return {tensor.shape(), tensor.dtype(), tensor.layout()};
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(shape.element_count()) * size_of(dtype);
  }
  /// Whether a tensor sent as one can be received as the other.
  bool fits(const TensorMeta& other) const {
    return shape == other.shape && dtype == other.dtype && layout == other.layout;
  }
};

std::string to_string(const TensorMeta& meta);  ///< "f32 [64, 16, 28, 28] nhwc"

}  // namespace troupe
