#include "ops/primitives/embedding.h"

#include <fmt/format.h>

#include "ops/on_device.h"
#include "ops/primitives/checks.h"
#include "ops/reference/embedding.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

void fill_gradient(const Embedding& embedding, const Pass& pass, const Tensor& grad,
                   Tensor& weight_grad) {
  pass.kernels().embedding_backward(pass.stream, grad, embedding.state.indices, weight_grad);
  if (embedding.padding_row < 0) return;
  Tensor row = weight_grad.narrow(embedding.padding_row, 1);
  pass.kernels().fill(pass.stream, 0.0, row);
}

/// Indices that are the input of a stage, or rows of it, refused as the kernels of the CPU do.
void check_on_cpu(const Pass& pass, const Tensor& indices, std::int64_t rows) {
  Tensor input = pass.input_on_cpu;
  const auto copy = pass.input_copy.lock();
  if (!input.defined() || !copy || indices.storage() != copy ||
      indices.layout() != Layout::row_major || input.layout() != Layout::row_major)
    return;
  if (pass.pixel_values.defined())
    input = troupe::kernels(Device::cpu(), pass.dtype)
                .look_up({}, input, pass.pixel_values, Layout::row_major);
  const auto first =
      (indices.raw() - copy->data()) / static_cast<std::ptrdiff_t>(size_of(indices.dtype()));
  const Tensor same = input.reshape(Shape{input.element_count()})
                          .narrow(first, indices.element_count())
                          .reshape(indices.shape());
  (void)reference::row_indices(same, rows);
}

}  // namespace

Tensor Embedding::forward(const Pass& pass, const Tensor& indices) {
  return forward(pass, indices, pass.weight(weight));
}

Tensor Embedding::forward(const Pass& pass, const Tensor& indices, const Tensor& weights) {
  if (weights.rank() != 2 || indices.rank() == Shape::max_rank)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: indices {} into a weight {}", name, to_string(indices.shape()),
                            to_string(weights.shape())),
                fmt::format("the weight is [rows, features], and indices have at most {} axes",
                            Shape::max_rank - 1));
  check_on_cpu(pass, indices, weights.dim(0));
  state = {in_layout(pass, indices, Layout::row_major), weights.shape(), indices.layout()};
  return pass.kernels().embedding(pass.stream, weights, state.indices);
}

void Embedding::input_gradient(const Pass& pass, const Tensor& grad,
                               std::span<InputGradient> inputs) {
  if (inputs[0].wanted)
    inputs[0].grad = zeros(pass.stream, state.indices.shape(), grad.dtype(), state.indices_layout);
  if (inputs.size() < 2 || !inputs[1].wanted) return;
  inputs[1].grad = Tensor::empty(state.weight_shape, grad.dtype(), pass.stream.device);
  fill_gradient(*this, pass, grad, inputs[1].grad);
}

void Embedding::weight_gradient(const Pass& pass, const Tensor& grad) {
  fill_gradient(*this, pass, grad, pass.weight_gradient(weight));
}

}  // namespace troupe::primitives
