#pragma once
#include "ops/kernels.h"

namespace troupe::cuda {

// Convolutions by the sum that defines them, for any options, and images that are row-major or
// nhwc: for what cuDNN has no plan for. Weights and their gradient are row-major. Both factors have
// one type: f32, f64, bf16 or f16; the bias and the result have the type of the sums, which is f32
// for factors of 16 bits.

/// y = x * weight + bias (undefined: none). The shapes say which outputs there are.
void direct_forward(const Stream& stream, const ConvolutionOptions& options, const Tensor& x,
                    const Tensor& weight, const Tensor& bias, const Tensor& y);
void direct_input_gradient(const Stream& stream, const ConvolutionOptions& options,
                           const Tensor& grad, const Tensor& weight, const Tensor& x_grad);
void direct_weight_gradient(const Stream& stream, const ConvolutionOptions& options,
                            const Tensor& x, const Tensor& grad, const Tensor& weight_grad);

}  // namespace troupe::cuda
