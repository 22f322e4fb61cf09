#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include "ops/convolution_work.h"
#include "runtime/tensor/device.h"

namespace troupe {

struct PlannedDeviceOptions {
  std::string title;  ///< of the GPU that it stands for
  /// The workspace of a pass of a convolution. Called for each pass that is run.
  std::function<std::size_t(const ConvolutionWork&)> workspace_bytes;
  /// Samples to plan convolutions for, for each sample that is run.
  double samples_factor = 1;
  /// As in Stream. The stream that kernels get has the defaults, since the CPU computes.
  DType products = DType::f32;
  bool conv_tf32 = false;
  bool deterministic = true;
};

/// Stands for an absent GPU, to compute how much of its memory a model takes. Tensors have the
/// shapes, types and layouts that they have on a GPU, but lie in the CPU's memory, in an allocator
/// of their own. Their values are meaningless: convolutions, linear layers, attention and 16-bit
/// tensors are zeroes; the CPU computes the rest.
/// Backend::take_scratch gives the working memory that kernels would ask for, with the copies
/// of what is rounded or reordered before it is multiplied, and at least that of a matrix product.
/// A process has one planned device; a later call replaces its options. Used by one thread at a
/// time.
Device planned_device(PlannedDeviceOptions options);

}  // namespace troupe
