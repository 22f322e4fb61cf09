#pragma once
#include "ops/cpu/convolution_rule.h"

namespace troupe::cpu {

/// Whether depthwise_weight_gradient is faster than oneDNN 2.6 on depthwise convolutions, each
/// channel of which has a kernel of its own. Measured on Zen 5 with one thread: oneDNN takes 7 to
/// 40 times as long for kernels of 5x5 and 7x7 and for dilated kernels, but as little as half the
/// time for other kernels of 3x3.
constexpr bool takes_own_weight_gradient(const ConvolutionOptions& o) {
  return is_depthwise(o) && (reach_h(o) > 3 || reach_w(o) > 3);
}

/// The gradients of weight and bias (undefined: none) of a depthwise convolution, of x and grad in
/// one layout, nhwc or nchw16c. The order of the sums depends on the shapes and the width of the
/// vectors only.
void depthwise_weight_gradient(const Stream& stream, const ConvolutionOptions& options,
                               const Tensor& x, const Tensor& grad, Tensor& weight_grad,
                               Tensor& bias_grad);

}  // namespace troupe::cpu
