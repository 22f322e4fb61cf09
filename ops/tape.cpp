#include "ops/tape.h"

#include <fmt/format.h>

#include <set>

#include "ops/on_device.h"
#include "runtime/error.h"

namespace troupe {
namespace {

// No tensor outside holds this memory, so it may be added into.
bool is_exclusive(const Tensor& tensor) { return tensor.storage().use_count() == 1; }

Error no_gradient(std::string_view primitive) {
  return Error(ErrorCode::bad_graph,
               fmt::format("backward: the output does not depend on a {} that was recorded, so its "
                           "weights have no gradient",
                           primitive),
               "use its output, or leave the layer out of the model");
}

}  // namespace

Value Tape::add(Tensor tensor, bool wants_gradient) {
  SavedTensor made;
  made.shape = tensor.shape();
  made.layout = tensor.layout();
  made.dtype = tensor.dtype();
  made.tensor = std::move(tensor);
  made.wants_gradient = wants_gradient;
  values_.push_back(std::move(made));
  return Value{static_cast<int>(values_.size()) - 1};
}

Value Tape::input(Tensor tensor, bool wants_gradient) {
  const Value value = add(std::move(tensor), wants_gradient && pass_.training);
  sources_.push_back(value);
  return value;
}

Value Tape::keep(std::unique_ptr<Operation> operation, std::vector<Value> inputs, Tensor output) {
  bool needed = operation->trains(pass_);
  for (Value input : inputs) needed = needed || saved_tensor(input).wants_gradient;
  needed = needed && pass_.training;
  const Value value = add(std::move(output), needed);
  if (needed) {
    operation->inputs = std::move(inputs);
    operation->output = value;
    operations_.push_back(std::move(operation));
  }
  return value;
}

void Tape::seal(Value kept) {
  for (std::size_t i = 0; i < values_.size(); ++i)
    if (static_cast<int>(i) != kept.index) values_[i].tensor = {};
}

std::vector<Tensor> Tape::backward(Value output, const Tensor& grad) {
  begin_backward(output, grad);
  walk_to(0, true);
  return end_backward();
}

std::vector<Tensor> Tape::backward_inputs(Value output, const Tensor& grad) {
  begin_backward(output, grad);
  walk_to(0, false);
  return end_backward();
}

// What was given stays referenced until the end, so that is_exclusive never takes the caller's
// memory (which may be another actor's slot, replayed after a failure) for the tape's own.
void Tape::begin_backward(Value output, const Tensor& grad) {
  SavedTensor& last = saved_tensor(output);
  if (!grad.defined() && !last.wants_gradient) return;
  if (grad.shape() != last.shape)
    throw Error(ErrorCode::bad_shape,
                fmt::format("backward: the gradient is {}, but the output is {}",
                            to_string(grad.shape()), to_string(last.shape)));
  if (!last.wants_gradient) return;
  given_ = on_device(pass_.stream, grad, last.dtype);
  last.grad = given_;
  if (given_.layout() != last.layout) {
    last.grad = Tensor::empty(last.shape, given_.dtype(), given_.device(), last.layout);
    pass_.kernels().reorder(pass_.stream, given_, last.grad);
  }
}

void Tape::walk_to(std::size_t mark, bool with_weights) {
  for (std::size_t n = operations_.size(); n > mark; --n)
    if (operations_[n - 1]) visit(operations_[n - 1], with_weights);
  if (with_weights) operations_.resize(std::min(operations_.size(), mark));
}

std::vector<Tensor> Tape::end_backward() {
  std::vector<Tensor> result;
  for (Value source : sources_)
    if (given_.defined() && saved_tensor(source).wants_gradient)
      result.push_back(std::exchange(saved_tensor(source).grad, {}));
  given_ = {};
  return result;
}

void Tape::visit(std::unique_ptr<Operation>& operation, bool with_weights) {
  if (operation->weights_deferred) {
    operation->weight_gradient(pass_, operation->grad);
    operation.reset();
    return;
  }
  Tensor grad = std::exchange(saved_tensor(operation->output).grad, {});
  const std::string_view name = operation->name();
  if (!grad.defined()) {
    if (operation->trains(pass_)) throw no_gradient(name);
    operation.reset();
    return;
  }
  const std::vector<Value> inputs = operation->inputs;
  std::vector<InputGradient> gradients(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const SavedTensor& input = saved_tensor(inputs[i]);
    gradients[i].wanted = input.wants_gradient;
    if (input.grad.defined() && is_exclusive(input.grad)) gradients[i].sum = input.grad;
  }
  operation->input_gradient(pass_, grad, gradients);
  const bool trains = operation->trains(pass_);
  if (trains && !with_weights) {
    operation->weights_deferred = true;
    if (operation->weights_read_gradient()) operation->grad = grad;
  } else {
    if (trains) operation->weight_gradient(pass_, grad);
    operation.reset();
  }
  grad = {};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (gradients[i].wanted) accumulate(saved_tensor(inputs[i]), gradients[i], name);
}

// Addition commutes, so either side may be the one that is added into.
void Tape::accumulate(SavedTensor& into, InputGradient& given, std::string_view from) {
  given.sum = {};
  if (given.added) return;
  Tensor grad = std::move(given.grad);
  if (!grad.defined() || grad.shape() != into.shape || grad.layout() != into.layout)
    throw Error(ErrorCode::internal,
                fmt::format("backward: {} gave a gradient of {} ({}) to an input of {} ({})", from,
                            to_string(grad.shape()), name_of(grad.layout()), to_string(into.shape),
                            name_of(into.layout)));
  // So that the bits do not depend on where stages divide the model.
  if (is_floating(into.dtype)) grad = on_device(pass_.stream, grad, into.dtype);
  if (!into.grad.defined()) {
    into.grad = std::move(grad);
  } else if (is_exclusive(into.grad)) {
    pass_.kernels().accumulate(pass_.stream, into.grad, grad);
  } else if (is_exclusive(grad)) {
    pass_.kernels().accumulate(pass_.stream, grad, into.grad);
    into.grad = std::move(grad);
  } else {
    into.grad = pass_.kernels().arithmetic(pass_.stream, ArithmeticOperation::add, into.grad, grad);
  }
}

std::size_t Tape::saved_bytes() const {
  std::set<const Storage*> seen;
  for (const Tensor& weight : pass_.weights) seen.insert(weight.storage().get());
  std::size_t bytes = 0;
  const auto count = [&](const Tensor& tensor) {
    if (tensor.defined() && seen.insert(tensor.storage().get()).second)
      bytes += tensor.storage()->bytes();
  };
  for (const SavedTensor& value : values_) count(value.tensor);
  for (const auto& operation : operations_) {
    if (!operation) continue;
    count(operation->grad);
    for (const Tensor& tensor : operation->saved()) count(tensor);
  }
  return bytes;
}

}  // namespace troupe
