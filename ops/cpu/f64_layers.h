#pragma once
// The layers of f64 that take most of the time: the kernels of these names in ops/kernel_list.inc.
// All other kernels of f64 are the reference's. Tensors are row-major, other layouts are reordered.
// The same bits for any number of threads.

#include <memory>

#include "ops/kernels.h"

namespace troupe::cpu {

std::unique_ptr<LayerKernel> convolution_f64(const ConvolutionOptions& options);
std::unique_ptr<LayerKernel> linear_f64(const LinearOptions& options);

}  // namespace troupe::cpu
