#pragma once
// Convolutions by cuDNN: behind these names, so that nothing else includes its headers.

#include <memory>
#include <string>
#include <vector>

#include "ops/convolution_work.h"
#include "ops/described_device.h"

namespace troupe::cuda {

/// One pass of a convolution of images of one shape and layout, ready to run. Used by one thread at
/// a time.
class ConvolutionPlan {
 public:
  virtual ~ConvolutionPlan() = default;
  virtual std::size_t workspace_bytes() const = 0;
  /// cuDNN's numerical notes of the plan, such as "TENSOR_CORE".
  virtual std::vector<std::string> notes() const = 0;
  /// Whether forward adds the bias of a work that has one: not if cuDNN has no such plan.
  virtual bool adds_bias() const = 0;
  /// `x`, `y` are images or their gradients, `weight` the weight or its gradient, all in the plan's
  /// layout (nhwc: [O, KH, KW, I / groups] in memory) and type; which of the three is written
  /// follows from the pass. `bias` is [O] of f32, or undefined. Throws OutOfMemory, the error of a
  /// context that is lost, and Error{unsupported} if cuDNN failed otherwise.
  virtual void run(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Tensor& y) = 0;
};

/// The first plan in the order of cuDNN's heuristic that sums in f32, does not round inputs of f32,
/// or rounds them to TF32 if the work allows it, and, if the work is deterministic, has a fixed
/// order of additions. Its workspace has at most 2 GiB. Equal works on one stream share a plan,
/// since some are compiled when they are made. Null if cuDNN supports none, with a warning, and for
/// f64, which is never asked for. Throws OutOfMemory, the error of a context that is lost, and
/// Error{unsupported} if cuDNN failed otherwise.
std::shared_ptr<ConvolutionPlan> plan_convolution(const Stream& stream,
                                                  const ConvolutionWork& work);

/// The same for a described device: such a plan cannot run, and a missing one is not warned about.
/// Without a driver on this host cuDNN leaves out plans that it compiles, among them forward ones
/// of 16 bits with a bias.
std::shared_ptr<ConvolutionPlan> plan_convolution(const ConvolutionWork& work,
                                                  const DescribedDevice* described);

/// "cuDNN 9.19.0".
std::string dnn_version();

}  // namespace troupe::cuda
