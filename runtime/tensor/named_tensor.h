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

/// What the header of a file tells of a tensor.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;

  static TensorInfo of(const NamedTensor& named) {
    return {named.name, named.tensor.dtype(), named.tensor.shape()};
  }
};

/// Named tensors that are in memory only once they are asked for: who needs some of a large file's
/// need not hold the rest.
struct TensorSource {
  std::vector<TensorInfo> tensors;  ///< each name once
  /// One of these, by name. Throws Error where it cannot be read.
  std::function<Tensor(const std::string& name)> read;

  /// Of tensors that are in memory. Throws Error (internal) on names that appear twice.
  static TensorSource of(const std::vector<NamedTensor>& tensors);
};

}  // namespace troupe
