#pragma once
// What a backend computes. ops/kernel_list.inc lists the kernels. A backend's folder (`ops/cpu`,
// `ops/cuda`, `ops/reference`) defines a function of each name and signature in its namespace.
//
// A kernel allocates its results on the stream's device, and writes only to arguments of type
// `Tensor&` and the new tensors of updates. All tensors are on the stream's device, except that
// `copy` also takes tensors of the CPU. Code outside kernels never accesses a GPU's memory.
// The bits do not depend on the number of threads. Shapes are (N, C, H, W) for any layout. Outputs
// keep the layout of the input unless stated.

#include <array>
#include <compare>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "ops/gradient_scaling.h"
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
  std::int64_t dilation_h = 1, dilation_w = 1;  ///< distance between the elements of the kernel
  std::int64_t groups = 1;  ///< output channels of a group see the input channels of that group
  bool bias = true;
  ConvolutionAlgorithm algorithm = ConvolutionAlgorithm::automatic;
  // NOLINTNEXTLINE(modernize-use-nullptr): no pointer
  friend auto operator<=>(const ConvolutionOptions&, const ConvolutionOptions&) = default;
};

/// The pixels that a kernel spans along each axis.
constexpr std::int64_t reach_h(const ConvolutionOptions& o) {
  return (o.kernel_h - 1) * o.dilation_h + 1;
}
constexpr std::int64_t reach_w(const ConvolutionOptions& o) {
  return (o.kernel_w - 1) * o.dilation_w + 1;
}
/// [out, in / groups, kernel_h, kernel_w].
inline Shape weight_shape(const ConvolutionOptions& o) {
  return {o.out_channels, o.in_channels / o.groups, o.kernel_h, o.kernel_w};
}

/// y = x W^T + b for x [N, in], W [out, in].
struct LinearOptions {
  std::int64_t in_features = 0;
  std::int64_t out_features = 0;
  bool bias = true;
};

/// A function of each element, as PyTorch's class of that name.
enum class ActivationFunction : std::uint8_t {
  sigmoid,
  tanh,
  silu,       ///< x * sigmoid(x)
  gelu,       ///< x * (1 + erf(x / sqrt(2))) / 2
  gelu_tanh,  ///< GELU(approximate="tanh")
  hardsigmoid,
  hardswish,
};

/// Whether the derivative of a function is computed from its value; otherwise from its argument.
constexpr bool derives_from_output(ActivationFunction function) {
  return function == ActivationFunction::sigmoid || function == ActivationFunction::tanh;
}

/// An operation on two elements.
enum class ArithmeticOperation : std::uint8_t { add, subtract, multiply, divide };

/// The arithmetic of one layer with a weight and a bias. It keeps what it has compiled for each
/// shape of the input, and the weights in the order that the compiled code needs. Used by one actor
/// at a time.
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
/// z = dropout(relu(norm(x))) + residual or, with residual_first, z = relu(norm(x) + residual).
/// Each part is optional; dropout only with relu and without a residual, so that backward finds the
/// dropped elements by z = 0.
struct NormEpilogue {
  bool relu = false;
  double dropout = 0.0;         ///< probability of a zero; only in training
  RandomKey random;             ///< names the dropout's numbers
  Tensor residual;              ///< added if defined; same shape and layout as x
  bool residual_first = false;  ///< added before relu, not after it

  /// Whether relu decides on a sum, so that the residual's gradient passes through it.
  bool relu_of_sum() const { return relu && residual_first && residual.defined(); }
};

/// Mean and biased variance of each channel over N, H, W: two row-major tensors [C].
struct ChannelMoments {
  Tensor mean;
  Tensor variance;
  Tensor norm = {};  ///< slope and offset of each channel, where the device keeps them
};

/// Gradients of a batch norm with its epilogue.
struct NormGradients {
  Tensor x;         ///< shape and layout of x
  Tensor weight;    ///< [C]
  Tensor bias;      ///< [C]
  Tensor residual;  ///< shape and layout of x; defined for NormEpilogue::relu_of_sum only, since
                    ///< that of a residual added last is `grad` itself
};

/// The output of a layer norm, and of each row of x what its gradient needs: row-major tensors
/// [rows].
struct LayerNormOutput {
  Tensor y;
  Tensor mean;
  Tensor inverse_deviation;  ///< 1 / sqrt(variance + epsilon)
};

/// Loss and correct predictions of a micro-batch, and the gradient of the model's outputs.
struct LossOutput {
  /// f64 [2]: the loss summed over the samples (not the mean), and the number of correct ones: of
  /// softmax_cross_entropy those whose largest logit is their class (the first of equal logits
  /// counts).
  Tensor totals;
  Tensor logits_grad;  ///< d(loss sum * scale) / d(outputs); undefined when not asked for
};

/// Where the elements of an index space lie in a tensor's memory: element (i0, i1, …) is number
/// offset + i0 * strides[0] + i1 * strides[1] + ….
struct ElementPlaces {
  std::int64_t offset = 0;
  std::array<std::int64_t, Shape::max_rank> strides{};
};

/// Which factors of a matrix product lie transposed in memory: a [..., k, m], b [..., n, k].
struct MatmulOptions {
  bool transposed_a = false;
  bool transposed_b = false;
};

/// How an attention differs from softmax(q k^T) v.
struct AttentionOptions {
  bool causal = false;  ///< token i sees the keys 0 to i
  double scale = 1.0;   ///< of q k^T
};

/// The result of an attention, and what its gradient needs besides the result: for each token the
/// logarithm of the sum of exp(score), which is minus infinity if the token sees no key, or
/// softmax(scores). The kernel chooses one of these by the sizes.
struct AttentionOutput {
  Tensor y;
  Tensor saved;
};
struct AttentionGradients {
  Tensor q, k, v;
};

/// The factors of a momentum_step.
struct MomentumStep {
  double lr = 0.0;
  double momentum = 0.0;  ///< 0: none
  double weight_decay = 0.0;
  bool nesterov = false;
  GradientScaling scaling;
};

/// What a momentum_step reads and writes: flat tensors of one length and type. `momentum` is
/// undefined in the first step, and both momentums are if factors.momentum is 0. New tensors may be
/// the old ones.
struct MomentumUpdate {
  MomentumStep factors;
  Tensor weights, gradient, momentum;
  Tensor new_weights, new_momentum;  ///< written
};

/// The factors of an adam_step. In update t, which counts from 1, the corrections of the two
/// averages' bias towards zero are 1 - beta1^t and 1 - beta2^t.
struct AdamStep {
  double lr = 0.0;
  double beta1 = 0.9, beta2 = 0.999;
  double correction1 = 1.0, correction2 = 1.0;
  double epsilon = 1e-8;
  double weight_decay = 0.0;
  bool decoupled_decay = false;
  GradientScaling scaling;
};

/// What an adam_step reads and writes: flat tensors of one length and type. The old averages are
/// undefined in the first update. New tensors may be the old ones.
struct AdamUpdate {
  AdamStep factors;
  Tensor weights, gradient, exp_avg, exp_avg_sq;
  Tensor new_weights, new_exp_avg, new_exp_avg_sq;  ///< written
};

/// The kernels of ops/kernel_list.inc, by name: `kernels(device, dtype).relu(stream, x)`.
struct KernelTable {
#define TROUPE_KERNEL(name, signature) std::add_pointer_t<signature> name;
#include "ops/kernel_list.inc"
};

/// The kernels for tensors of this type on this device, from its Backend (ops/backend.h). Throws
/// Error{unsupported} for a combination that this build does not have, naming both.
const KernelTable& kernels(Device device, DType dtype);

}  // namespace troupe
