#pragma once
// Convolutions by cuDNN: behind these names, so that nothing else includes its headers.

#include <memory>

#include "ops/cuda/described_device.h"
#include "ops/kernels.h"

namespace troupe::cuda {

enum class ConvolutionPass : std::uint8_t { forward, input_gradient, weight_gradient };

/// One pass of a convolution of nhwc images of one shape, ready to run: the same sums in the same
/// order from run to run. Used by one actor at a time.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// `x`, `y` are images or their gradients, `weight` is [O, KH, KW, I / groups] in memory or the
  /// gradient of that; which of the three is written follows from the pass. Forward also adds the
  /// bias [O], if the plan was made with one.
  virtual void run(const Stream& stream, void* x, void* weight, const void* bias, void* y,
                   void* workspace) = 0;
};

/// The plan that cuDNN takes to be the fastest among those that fix their order of additions and
/// multiply without rounding to TF32. Null if it has none, as for f64. With a described device the
/// plan is for that one and cannot run. Throws Error{unsupported} where cuDNN cannot be used at
/// all.
std::unique_ptr<ConvolutionPlan> plan_convolution(ConvolutionPass pass, DType dtype,
                                                  const ConvolutionOptions& options, const Shape& x,
                                                  const Shape& y, bool bias,
                                                  const DescribedDevice* described = nullptr);

}  // namespace troupe::cuda
