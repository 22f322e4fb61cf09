#pragma once
// The layers that models are made of. Each mirrors PyTorch's class of that name: its parameters'
// names, shapes, initial distribution and arithmetic. One actor uses a layer at a time.
//
// Constructors throw Error{bad_options} for sizes and probabilities that a layer cannot have;
// forward throws Error{bad_shape} for an input that does not fit.

#include <cmath>
#include <memory>
#include <string>

#include "ops/nn/module.h"
#include "ops/primitives/elementwise.h"
#include "ops/primitives/pooling.h"
#include "ops/primitives/reshape.h"

namespace troupe::nn {

/// The initial distribution of a convolution's weight. A bias is U(-b, b) in both cases.
enum class ConvolutionStart : std::uint8_t {
  uniform,    ///< PyTorch's default: U(-b, b)
  he_normal,  ///< N(0, 2 / (out * kernel_h * kernel_w)): K. He et al., "Delving deep into
              ///< rectifiers", ICCV 2015, with the fan-out, as torchvision's ResNets
};

/// Parameters: weight [out, in / groups, kernel_h, kernel_w] and bias [out], from U(-b, b) with
/// b = 1 / sqrt(in / groups * kernel_h * kernel_w) or as `start` says.
class Conv2d final : public Module {
 public:
  Conv2d(std::string path, ConvolutionOptions options,
         ConvolutionStart start = ConvolutionStart::uniform);
  void declare(StateSpec& spec) override;
  Value forward(Tape& tape, Value x) override;
  bool begins_with_convolution() const override { return true; }

 private:
  ConvolutionOptions options_;
  ConvolutionStart start_;
  ParameterIndex weight_, bias_;
  std::unique_ptr<LayerKernel> kernel_;  // made by the first pass, which knows the backend
};

/// Parameters: weight [out, in] and bias [out], from U(-b, b) with b = 1 / sqrt(in).
class Linear final : public Module {
 public:
  Linear(std::string path, LinearOptions options);
  void declare(StateSpec& spec) override;
  Value forward(Tape& tape, Value x) override;

 private:
  LinearOptions options_;
  ParameterIndex weight_, bias_;
  std::unique_ptr<LayerKernel> kernel_;  // made by the first pass, which knows the backend
};

/// A batch norm and what follows it in the same pass over memory.
struct BatchNormOptions {
  std::int64_t features = 0;
  double epsilon = 1e-5;
  double momentum = 0.1;
  bool relu = false;
  double dropout = 0.0;         ///< probability of a zero, after the ReLU
  std::string dropout_path;     ///< names the dropout's random numbers; needed where it has any
  bool residual_first = false;  ///< a residual is added before the ReLU, not last
};

/// Parameters: weight (ones) and bias (zeros) [features]. Buffers: running_mean, running_var and
/// num_batches_tracked.
class BatchNorm2d final : public Module {
 public:
  BatchNorm2d(std::string path, BatchNormOptions options);
  void declare(StateSpec& spec) override;
  Value forward(Tape& tape, Value x) override;
  /// Adds the residual last or, with residual_first, before the ReLU.
  Value forward(Tape& tape, Value x, Value residual);

 private:
  BatchNormOptions options_;
  ParameterIndex weight_, bias_;
  BufferIndex running_mean_, running_variance_;
};

struct DropoutOptions {
  double probability = 0.5;
};

/// Its path names its random numbers.
class Dropout final : public Module {
 public:
  Dropout(std::string path, DropoutOptions options);
  Value forward(Tape& tape, Value x) override;

 private:
  DropoutOptions options_;
};

/// A primitive without parameters as a layer; made from the members of the primitive.
///
///     model.add<nn::Layer<primitives::Relu>>("relu");
template <class Primitive>
class Layer final : public Module {
 public:
  template <class... Members>
  explicit Layer(std::string path, Members&&... members)
      : Module(std::move(path)), primitive_{std::forward<Members>(members)...} {}
  Value forward(Tape& tape, Value x) override { return tape.record(primitive_, x); }

 private:
  Primitive primitive_;
};

using Relu = Layer<primitives::Relu>;
using MaxPool2d = Layer<primitives::MaxPool2d>;
using AveragePool2d = Layer<primitives::AveragePool2d>;
using AdaptiveAveragePool2d = Layer<primitives::AdaptiveAveragePool2d>;
using Flatten = Layer<primitives::Flatten>;

}  // namespace troupe::nn
