#pragma once
// CPU kernels for f64 only. In f64, ops/cpu/backend.cpp selects these, kernels of ops/cpu/kernels.h
// that also take f64, and the reference for the rest. Results do not depend on the number of
// threads.

#include <memory>

#include "ops/kernels.h"
#include "ops/reference/kernels.h"

namespace troupe::cpu {

// Tensors of other layouts are first reordered to row-major.
std::unique_ptr<LayerKernel> convolution_f64(const ConvolutionOptions& options);
std::unique_ptr<LayerKernel> linear_f64(const LinearOptions& options);

// The reference's loops; the threads share the parts of the tensors.
decltype(reference::accumulate) accumulate_f64;
decltype(reference::activate) activate_f64;
decltype(reference::activate_backward) activate_backward_f64;
decltype(reference::adam_step) adam_step_f64;
decltype(reference::arithmetic) arithmetic_f64;
decltype(reference::layer_norm) layer_norm_f64;
decltype(reference::layer_norm_backward) layer_norm_backward_f64;
decltype(reference::momentum_step) momentum_step_f64;

}  // namespace troupe::cpu
