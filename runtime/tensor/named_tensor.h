#pragma once
#include <functional>
#include <string>
#include <vector>

#include "runtime/tensor/tensor.h"

namespace troupe {

/// A tensor with its state_dict key: the unit that checkpoints and exports are made of.
struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// A tensor as the header of a file describes it.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;

  static TensorInfo of(const NamedTensor& named) {
    return {named.name, named.tensor.dtype(), named.tensor.shape()};
  }
};

/// Named tensors that are read on request, so that a caller that needs a part of a large file does
/// not hold the rest.
struct TensorSource {
  std::vector<TensorInfo> tensors;  ///< each name once
  /// One of these, by name. Throws Error where it cannot be read.
  std::function<Tensor(const std::string& name)> read;

  /// Of tensors that are in memory. Throws Error (internal) on names that appear twice.
  static TensorSource of(const std::vector<NamedTensor>& tensors);
};

}  // namespace troupe
