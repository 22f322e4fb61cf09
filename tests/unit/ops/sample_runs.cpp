#include <algorithm>
#include <cmath>

#include "ops/on_device.h"
#include "runtime/tensor/cast.h"
#include "samples.h"

namespace troupe::testing_ops {
namespace {

const RandomKey random_key{.seed = 5, .step = 2, .micro_batch = 1};

Tensor in_layout(const Tensor& tensor, Layout layout) {
  if (tensor.layout() == layout || tensor.rank() != 4) return tensor;
  Tensor result = Tensor::empty(tensor.shape(), tensor.dtype(), Device::cpu(), layout);
  kernels({}, tensor.dtype()).reorder({}, tensor, result);
  return result;
}

Tensor plain(const Stream& stream, const Tensor& tensor) {
  return in_layout(cast(on_cpu(stream, tensor), DType::f64), Layout::row_major);
}

std::vector<Tensor> plain(const Stream& stream, const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors)
    result.push_back(tensor.defined() ? plain(stream, tensor) : Tensor());
  return result;
}

std::vector<Tensor> on_device_as(const Stream& stream, const std::vector<Tensor>& tensors,
                                 DType dtype) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors) result.push_back(on_device(stream, cast(tensor, dtype)));
  return result;
}

std::vector<Tensor> empty_like(const std::vector<Tensor>& tensors) {
  std::vector<Tensor> result;
  for (const Tensor& tensor : tensors)
    result.push_back(Tensor::empty(tensor.shape(), tensor.dtype(), tensor.device()));
  return result;
}

}  // namespace

Tensor uniform(std::string_view name, const Shape& shape) {
  Tensor result = Tensor::empty(shape, DType::f64, Device::cpu());
  const RandomKey key{.seed = 11, .operation = operation_id(name)};
  for (std::int64_t e = 0; e < result.element_count(); ++e)
    result.data<double>()[e] =
        2.0 * uniform_float(key.block(static_cast<std::uint32_t>(e))[0]) - 1.0;
  return result;
}

Numbers numbers(const Sample& sample) {
  Numbers result;
  const auto fill = [&](const char* role, const std::vector<Shape>& shapes,
                        std::vector<Tensor>& into) {
    for (std::size_t i = 0; i < shapes.size(); ++i)
      into.push_back(uniform(sample.name + "/" + role + std::to_string(i), shapes[i]));
  };
  fill("input", sample.inputs, result.inputs);
  fill("weight", sample.weights, result.weights);
  fill("buffer", sample.buffers, result.buffers);
  for (const Tensor& buffer : result.buffers)
    for (double& value : buffer.elements<double>()) value = 1.0 + 0.5 * value;
  return result;
}

Outcome run(const Sample& sample, const Numbers& numbers, const RunOptions& options) {
  const std::vector<Tensor> weights = on_device_as(options.stream, numbers.weights, options.dtype);
  const std::vector<Tensor> buffers = on_device_as(options.stream, numbers.buffers, options.dtype);
  std::vector<Tensor> gradients = empty_like(weights), statistics = empty_like(buffers);
  Pass pass;
  pass.stream = options.stream;
  pass.dtype = options.dtype;
  pass.training = options.training;
  pass.random = random_key;
  pass.weights_version = 1;
  pass.weights = weights;
  pass.buffers = buffers;
  pass.weight_gradients = gradients;
  pass.statistics = statistics;

  Tape tape(pass);
  OwnedKernels owned;
  std::vector<Value> inputs;
  for (const Tensor& input : numbers.inputs) {
    const bool typed = inputs.empty() || !options.first_alone;
    const DType dtype = typed ? options.inputs.value_or(options.dtype) : options.dtype;
    inputs.push_back(tape.input(
        on_device(options.stream, in_layout(cast(input, options.dtype), options.layout), dtype),
        true));
  }
  const Value output = sample.record(tape, inputs, owned);
  Outcome outcome;
  outcome.output = plain(options.stream, tape.tensor(output)).clone();
  tape.seal();
  outcome.saved_bytes = tape.saved_bytes();
  if (!options.training) return outcome;

  const Tensor exact = uniform(sample.name + "/grad", outcome.output.shape());
  const Tensor grad = on_device(options.stream, cast(cast(exact, options.gradient), options.dtype));
  if (options.apart) {
    outcome.input_gradients = plain(options.stream, tape.backward_inputs(output, grad));
    tape.backward_weights();
  } else {
    outcome.input_gradients = plain(options.stream, tape.backward(output, grad));
  }
  outcome.weight_gradients = plain(options.stream, gradients);
  outcome.statistics = plain(options.stream, statistics);
  return outcome;
}

double objective(const Sample& sample, const Numbers& numbers) {
  std::vector<Tensor> statistics = empty_like(numbers.buffers);
  Pass pass;
  pass.dtype = DType::f64;
  pass.random = random_key;
  pass.weights_version = 1;
  pass.weights = numbers.weights;
  pass.buffers = numbers.buffers;
  pass.statistics = statistics;
  Tape tape(pass);
  OwnedKernels owned;
  std::vector<Value> inputs;
  for (const Tensor& input : numbers.inputs) inputs.push_back(tape.input(input, false));
  const Tensor output = tape.tensor(sample.record(tape, inputs, owned));
  const Tensor grad = uniform(sample.name + "/grad", output.shape());
  double sum = 0;
  for (std::int64_t e = 0; e < output.element_count(); ++e)
    sum += output.data<double>()[e] * grad.data<double>()[e];
  return sum;
}

double distance(const Tensor& a, const Tensor& b) {
  if (a.shape() != b.shape()) return INFINITY;
  double largest = 0;
  for (std::int64_t e = 0; e < a.element_count(); ++e) {
    const double difference = std::abs(a.data<double>()[e] - b.data<double>()[e]);
    largest = std::max(largest, difference / std::max(1.0, std::abs(b.data<double>()[e])));
    if (std::isnan(difference)) return INFINITY;
  }
  return largest;
}

}  // namespace troupe::testing_ops
