#pragma once
// Convolutions by cuDNN: behind these names, so that nothing else includes its headers.

#include <memory>

#include "ops/described_device.h"
#include "ops/kernels.h"

namespace troupe::cuda {

enum class ConvolutionPass : std::uint8_t { forward, input_gradient, weight_gradient };

/// One pass of a convolution of images of one shape and layout, ready to run: the same sums in the
/// same order from run to run. Used by one actor at a time.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// `x`, `y` are images or their gradients, `weight` the weight or its gradient, all in the plan's
  /// layout (nhwc: [O, KH, KW, I / groups] in memory); which of the three is written follows from
  /// the pass. Forward also adds the bias [O], if the plan was made with one.
  virtual void run(const Stream& stream, void* x, void* weight, const void* bias, void* y,
                   void* workspace) = 0;
};

/// What a plan is for.
struct ConvolutionWork {
  ConvolutionPass pass = ConvolutionPass::forward;
  DType dtype = DType::f32;
  ConvolutionOptions options;
  Shape x, y;
  bool bias = false;
  /// Of x, weight and y: row_major or nhwc. Without tensor cores, as for f32, cuDNN has few kernels
  /// for nhwc: most of its plans copy x and y to row-major in their workspace and back.
  Layout layout = Layout::nhwc;
};

/// The plan that cuDNN takes to be the fastest among those that fix their order of additions and
/// multiply without rounding to TF32. Null if it has none, as for f64. With a described device the
/// plan is for that one and cannot run. Throws Error{unsupported} where cuDNN cannot be used at
/// all.
std::unique_ptr<ConvolutionPlan> plan_convolution(const ConvolutionWork& work,
                                                  const DescribedDevice* described = nullptr);

}  // namespace troupe::cuda
