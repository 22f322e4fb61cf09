#pragma once
#include <cstddef>
#include <string>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// What a tensor is, without its elements: what a receiver has to know before they come.
struct TensorMeta {
  Shape shape;
  DType dtype = DType::f32;
  Layout layout = Layout::row_major;
  Device device;  ///< where it lies, or shall come to lie

  static TensorMeta of(const Tensor& tensor) {
    return {tensor.shape(), tensor.dtype(), tensor.layout(), tensor.device()};
  }
  std::size_t bytes() const {
    return static_cast<std::size_t>(shape.element_count()) * size_of(dtype);
  }
  /// Whether one can be received where the other was sent; each side has its own devices.
  bool fits(const TensorMeta& other) const {
    return shape == other.shape && dtype == other.dtype && layout == other.layout;
  }
};

std::string to_string(const TensorMeta& meta);  ///< "f32 [64, 16, 28, 28] nhwc"

}  // namespace troupe
