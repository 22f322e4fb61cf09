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

namespace troupe::nn {

/// Keeps weight [out, in, kernel_h, kernel_w] and bias [out], from U(-b, b) with
/// b = 1 / sqrt(in * kernel_h * kernel_w).
class Conv2d final : public Module {
 public:
  Conv2d(std::string path, ConvolutionOptions options);
  void declare(StateSpec& spec) override;
  Value forward(Tape& tape, Value x) override;

 private:
  ConvolutionOptions options_;
  ParameterIndex weight_, bias_;
  std::unique_ptr<LayerKernel> kernel_;  // made by the first pass, which knows the backend
};

/// Keeps weight [out, in] and bias [out], from U(-b, b) with b = 1 / sqrt(in).
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
  double dropout = 0.0;      ///< probability of a zero, after the ReLU
  std::string dropout_path;  ///< names the dropout's random numbers; needed where it has any
};

/// Keeps weight (ones) and bias (zeros) [features], running_mean, running_var and
/// num_batches_tracked.
class BatchNorm2d final : public Module {
 public:
  BatchNorm2d(std::string path, BatchNormOptions options);
  void declare(StateSpec& spec) override;
  Value forward(Tape& tape, Value x) override;
  Value forward(Tape& tape, Value x, Value residual);  ///< adds the residual last

 private:
  BatchNormOptions options_;
  ParameterIndex weight_, bias_;
  BufferIndex running_mean_, running_variance_;
};

class Relu final : public Module {
 public:
  using Module::Module;
  Value forward(Tape& tape, Value x) override;
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

class MaxPool2d final : public Module {
 public:
  MaxPool2d(std::string path, PoolOptions options) : Module(std::move(path)), options_(options) {}
  Value forward(Tape& tape, Value x) override;

 private:
  PoolOptions options_;
};

class AveragePool2d final : public Module {
 public:
  AveragePool2d(std::string path, PoolOptions options)
      : Module(std::move(path)), options_(options) {}
  Value forward(Tape& tape, Value x) override;

 private:
  PoolOptions options_;
};

struct AdaptivePoolOptions {
  std::int64_t out_h = 1, out_w = 1;
};

class AdaptiveAveragePool2d final : public Module {
 public:
  AdaptiveAveragePool2d(std::string path, AdaptivePoolOptions options)
      : Module(std::move(path)), options_(options) {}
  Value forward(Tape& tape, Value x) override;

 private:
  AdaptivePoolOptions options_;
};

class Flatten final : public Module {
 public:
  using Module::Module;
  Value forward(Tape& tape, Value x) override;
};

}  // namespace troupe::nn
