#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "ops/kernels.h"
#include "runtime/random.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// Where a stage keeps a parameter or a batch-norm statistic: an index into the spans of a Pass.
struct ParameterIndex {
  int value = -1;
};
struct BufferIndex {
  int value = -1;
};

/// What the primitives of one forward and backward pass share; an argument of each of them. Valid
/// while the stage holds the micro-batch.
struct Pass {
  Stream stream;
  DType dtype = DType::f32;
  bool training = true;
  RandomKey random;  ///< of this step and micro-batch; a primitive fills in its operation

  /// On another device than the CPU: the stage's input in the CPU's memory, if it came from there,
  /// and the memory of its copy on the device. Kernels of a device may run after the call returns,
  /// so they cannot refuse a value. Primitives that refuse values check this tensor.
  Tensor input_on_cpu;
  std::weak_ptr<Storage> input_copy;
  Tensor pixel_values;  ///< on the CPU: the numbers of input_on_cpu's bytes, if it has bytes

  /// Changes when the weights change: kernels that keep reordered weights compare it.
  std::uint64_t weights_version = 0;
  std::span<const Tensor> weights;       ///< by ParameterIndex
  std::span<const Tensor> buffers;       ///< by BufferIndex; running statistics, read in evaluation
  std::span<Tensor> weight_gradients;    ///< by ParameterIndex; each written once by backward
  std::span<const std::uint8_t> frozen;  ///< by ParameterIndex: 1 for those that nobody trains
  std::span<Tensor> statistics;          ///< by BufferIndex; this micro-batch's, written by forward

  const Tensor& weight(ParameterIndex index) const {
    return weights[static_cast<std::size_t>(index.value)];
  }
  const Tensor& buffer(BufferIndex index) const {
    return buffers[static_cast<std::size_t>(index.value)];
  }
  Tensor& weight_gradient(ParameterIndex index) const {
    return weight_gradients[static_cast<std::size_t>(index.value)];
  }
  /// False for the index of no parameter.
  bool trains(ParameterIndex index) const {
    const auto i = static_cast<std::size_t>(index.value);
    return index.value >= 0 && (frozen.empty() || frozen[i] == 0);
  }
  Tensor& statistic(BufferIndex index) const {
    return statistics[static_cast<std::size_t>(index.value)];
  }
  const KernelTable& kernels() const { return troupe::kernels(stream.device, dtype); }
};

}  // namespace troupe
