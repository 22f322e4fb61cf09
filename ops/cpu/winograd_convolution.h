#pragma once
#include <vector>

#include "ops/cpu/convolution_pieces.h"
#include "ops/cpu/prepared_weights.h"

namespace troupe::cpu {

/// Whether Winograd's algorithm computes a convolution; winograd.h says how. It is for tensors in
/// nchw16c.
constexpr bool winograd_can(const ConvolutionOptions& o) {
  return o.kernel_h == 3 && o.kernel_w == 3 && o.stride_h == 1 && o.stride_w == 1 &&
         o.dilation_h == 1 && o.dilation_w == 1 && o.groups == 1 && o.in_channels % 16 == 0 &&
         o.out_channels % 16 == 0 && o.padding_h <= 2 && o.padding_w <= 2;
}

/// The three directions of a LayerKernel, with the pieces of that direction. All tensors that are
/// written exist; those of samples are nchw16c.
void winograd_forward(const Stream& stream, const ConvolutionOptions& options,
                      const std::vector<ConvolutionPiece>& pieces, PreparedWeights& weights,
                      const Tensor& x, Tensor& y);
void winograd_input_gradient(const Stream& stream, const ConvolutionOptions& options,
                             const std::vector<ConvolutionPiece>& pieces, PreparedWeights& weights,
                             const Tensor& y_grad, Tensor& x_grad);
/// `bias_grad` is only written if the convolution has a bias.
void winograd_weight_gradient(const Stream& stream, const ConvolutionOptions& options,
                              const std::vector<ConvolutionPiece>& pieces, const Tensor& x,
                              const Tensor& y_grad, Tensor& weight_grad, Tensor& bias_grad);

}  // namespace troupe::cpu
