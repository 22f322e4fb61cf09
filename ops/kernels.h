#pragma once
// What a backend computes. A folder (`ops/cpu`, `ops/reference`) fills one KernelTable: each of its
// files fills the entries of one family of kernels (`families.h` there). A test fails on an entry
// that is missing.
//
// Kernels allocate what they return on the stream's device, and write what they take as `Tensor&`.
// They run on the given stream with its number of threads; for the same number they give the same
// bits. Tensors lie on the stream's device, apart from those of `copy`. Only kernels read or write
// the memory of tensors; code above the backends reads what `copy` has brought to the CPU.
// Shapes are (N, C, H, W) for any layout. Outputs keep the layout of the input unless stated.

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/random.h"
#include "runtime/tensor/tensor.h"

namespace troupe {

/// How a convolution is computed.
enum class ConvolutionAlgorithm : std::uint8_t {
  automatic,  ///< Winograd where it is faster, else direct (ops/cpu/convolution_rule.h)
  direct,
  winograd,  ///< F(4x4, 3x3): A. Lavin, S. Gray, "Fast algorithms for convolutional neural
             ///< networks", CVPR 2016; 3x3 stride 1 only, others stay direct
};

/// A 2-d convolution (cross-correlation, as PyTorch's Conv2d) with zero padding.
struct ConvolutionOptions {
  std::int64_t in_channels = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel_h = 3, kernel_w = 3;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t padding_h = 0, padding_w = 0;
  bool bias = true;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::automatic;
};

/// y = x W^T + b for x [N, in], W [out, in].
struct LinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
};

/// The arithmetic of one layer with a weight and a bias, with what it prepares: compiled primitives
/// for each shape of the input, and the weights in the order that these want. Used by one actor at
/// a time.
class LayerKernel {
 public:
  virtual ~LayerKernel() = default;
  /// From now on uses this weight and bias (undefined: none), row-major in PyTorch's shapes. Called
  /// before each pass; does nothing while `version` stays the same.
  virtual void use_weights(const Stream& stream, const Tensor& weight, const Tensor& bias,
                           std::uint64_t version) = 0;
  /// The output's layout is the one that suits the algorithm and the device.
  virtual Tensor forward(const Stream& stream, const Tensor& x) = 0;
  /// Gradient of x, in the layout and shape that x had.
  virtual Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                                Layout x_layout) = 0;
  /// Writes the gradients of weight and bias (row-major, the shapes of use_weights).
  virtual void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                               Tensor& weight_grad, Tensor& bias_grad) = 0;
};

/// Window of a pooling. As PyTorch: floor mode; padding counts as part of an average.
struct PoolOptions {
  std::int64_t kernel_h = 2, kernel_w = 2;
  std::int64_t stride_h = 2, stride_w = 2;
  std::int64_t padding_h = 0, padding_w = 0;
};

/// What follows a batch norm in the same pass over memory:
/// z = dropout(relu(norm(x))) + residual, each part where it is asked for; dropout only with relu
/// and without a residual, so that backward finds the dropped elements by z = 0.
struct NormEpilogue {
  bool relu = false;
  float dropout = 0.0f;  ///< probability of a zero; only in training
  RandomKey random;      ///< names the dropout's numbers
  Tensor residual;       ///< added last, if defined; same shape and layout as x
};

/// Mean and biased variance of each channel over N, H, W: two row-major tensors [C].
struct ChannelMoments {
  Tensor mean;
  Tensor variance;
};

/// Gradients of a batch norm with its epilogue. The residual's gradient is `grad` itself.
struct NormGradients {
  Tensor x;       ///< shape and layout of x
  Tensor weight;  ///< [C]
  Tensor bias;    ///< [C]
};

/// Loss and correct predictions of a micro-batch, and the gradient of the logits.
struct LossOutput {
  /// f64 [2]: the loss summed over the samples (not the mean), and the number of samples whose
  /// largest logit is their class (the first of equal logits counts).
  Tensor totals;
  Tensor logits_grad;  ///< d(loss sum * scale) / d(logits); undefined when not asked for
};

/// Hyper-parameters of PyTorch's SGD, apart from the learning rate.
struct SgdOptions {
  double momentum = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
};

struct KernelTable {
  std::string_view backend;

  /// y = x * w + b; weight [O, I, KH, KW], bias [O].
  std::unique_ptr<LayerKernel> (*convolution)(const ConvolutionOptions& options);
  /// y = x W^T + b; weight [out, in], bias [out].
  std::unique_ptr<LayerKernel> (*linear)(const LinearOptions& options);

  /// Copies between tensors of the same shape and layout, of which one may lie in the CPU's memory
  /// and the other on the stream's device. The types are equal, or both floating-point. A copy to
  /// the CPU is complete on return; others complete in the order of the stream.
  void (*copy)(const Stream& stream, const Tensor& from, Tensor& to);
  /// Writes the value to all elements.
  void (*fill)(const Stream& stream, double value, Tensor& to);
  /// to = from * factor, computed in f64. `from` is f32 or f64; shape and layout are equal.
  void (*scale)(const Stream& stream, const Tensor& from, double factor, Tensor& to);
  /// running = (1 - momentum) * running + momentum * observed, computed in f64.
  void (*fold)(const Stream& stream, const Tensor& observed, double momentum, Tensor& running);
  /// Copies `from` into `to`, which has the same shape and type and another layout.
  void (*reorder)(const Stream& stream, const Tensor& from, Tensor& to);

  Tensor (*relu)(const Stream& stream, const Tensor& x);
  /// `y` is relu's output.
  Tensor (*relu_backward)(const Stream& stream, const Tensor& y, const Tensor& grad);
  Tensor (*add)(const Stream& stream, const Tensor& a, const Tensor& b);
  /// a += b, elementwise over the memory of both.
  void (*accumulate)(const Stream& stream, Tensor& a, const Tensor& b);
  /// Zeroes elements with the given probability and scales the others by 1 / (1 - probability).
  /// Element e is counted in logical (N, C, H, W) order, so the layout does not matter; it is
  /// dropped when uniform_float(random.block(e / 4)[e % 4]) < probability.
  Tensor (*dropout)(const Stream& stream, const Tensor& x, float probability,
                    const RandomKey& random);

  ChannelMoments (*channel_moments)(const Stream& stream, const Tensor& x);
  /// x [N, C, H, W] or [N, C]; weight, bias, mean, variance [C].
  Tensor (*batch_norm)(const Stream& stream, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const ChannelMoments& moments, double epsilon,
                       const NormEpilogue& epilogue);
  /// `z` is batch_norm's output. `batch_moments`: the moments are those of x (training), so they
  /// depend on x; otherwise they are constants.
  NormGradients (*batch_norm_backward)(const Stream& stream, const Tensor& grad, const Tensor& x,
                                       const Tensor& z, const Tensor& weight, const Tensor& bias,
                                       const ChannelMoments& moments, double epsilon,
                                       const NormEpilogue& epilogue, bool batch_moments);

  Tensor (*max_pool)(const Stream& stream, const Tensor& x, const PoolOptions& options);
  /// The gradient goes to the first largest element of a window.
  Tensor (*max_pool_backward)(const Stream& stream, const Tensor& grad, const Tensor& x,
                              const PoolOptions& options);
  Tensor (*average_pool)(const Stream& stream, const Tensor& x, const PoolOptions& options);
  Tensor (*average_pool_backward)(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                                  const PoolOptions& options);
  /// Averages over windows that split H, W into out_h, out_w parts as PyTorch's AdaptiveAvgPool2d.
  Tensor (*adaptive_average_pool)(const Stream& stream, const Tensor& x, std::int64_t out_h,
                                  std::int64_t out_w);
  Tensor (*adaptive_average_pool_backward)(const Stream& stream, const Tensor& grad,
                                           const Shape& x_shape);

  /// logits [N, classes], targets i64 [N]. Throws for a target outside [0, classes).
  LossOutput (*softmax_cross_entropy)(const Stream& stream, const Tensor& logits,
                                      const Tensor& targets, double scale, bool with_gradient);

  /// One step over flat arrays of equal length. Without options.momentum, both momentums are
  /// undefined. Otherwise `momentum` is undefined in the first step, in which the new one becomes
  /// the gradient (with weight decay). Outputs may be the inputs.
  void (*sgd)(const Stream& stream, const SgdOptions& options, double lr, const Tensor& weights,
              const Tensor& gradient, const Tensor& momentum, Tensor& new_weights,
              Tensor& new_momentum);
};

/// The kernels for tensors of this type on this device, from its Backend (ops/backend.h). Throws
/// Error{unsupported} for a combination that this build does not have, naming both.
const KernelTable& kernels(Device device, DType dtype);

}  // namespace troupe
