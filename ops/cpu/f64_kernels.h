#pragma once
// Kernels of f64 alone. ops/cpu/backend.cpp lists them and the kernels of ops/cpu/kernels.h that
// take f64 too; all others are the reference's. The same bits for any number of threads.

#include <memory>

#include "ops/kernels.h"
#include "ops/reference/kernels.h"

namespace troupe::cpu {

// Their tensors are row-major, other layouts are reordered.
std::unique_ptr<LayerKernel> convolution_f64(const ConvolutionOptions& options);
std::unique_ptr<LayerKernel> linear_f64(const LinearOptions& options);

// The reference's loops over parts of the tensors, which the threads share.
decltype(reference::accumulate) accumulate_f64;
decltype(reference::activate) activate_f64;
decltype(reference::activate_backward) activate_backward_f64;
decltype(reference::adam_step) adam_step_f64;
decltype(reference::arithmetic) arithmetic_f64;
decltype(reference::layer_norm) layer_norm_f64;
decltype(reference::layer_norm_backward) layer_norm_backward_f64;
decltype(reference::momentum_step) momentum_step_f64;

}  // namespace troupe::cpu
