#include "ops/primitives/layer_norm.h"

#include <fmt/format.h>

#include <utility>

#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

void check_features(const Shape& shape, std::int64_t features) {
  std::int64_t count = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    count *= shape[axis];
    if (count == features) return;
  }
  throw Error(ErrorCode::bad_shape,
              fmt::format("{}: no last axes of {} have {} elements together", LayerNorm::name,
                          to_string(shape), features),
              "check the normalized shape against the features of the layer before it");
}

/// The parameter as a vector of its elements; undefined if there is none.
Tensor vector_of(const Pass& pass, ParameterIndex index, std::int64_t features, const char* role) {
  if (index.value < 0) return {};
  const Tensor& parameter = pass.weight(index);
  if (parameter.element_count() != features)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the {} is {}, but rows have {} features", LayerNorm::name, role,
                            to_string(parameter.shape()), features),
                "check the normalized shape");
  return parameter.reshape({features});
}

void write(const Pass& pass, const Tensor& gradient, ParameterIndex index) {
  if (index.value < 0) return;
  Tensor& to = pass.weight_gradient(index);
  pass.kernels().copy(pass.stream, gradient.reshape(to.shape()), to);
}

}  // namespace

Tensor LayerNorm::forward(const Pass& pass, const Tensor& x) {
  check_features(x.shape(), features);
  state.x_layout = x.layout();
  state.x = in_layout(pass, x, Layout::row_major);
  state.moments =
      pass.kernels().layer_norm(pass.stream, state.x, vector_of(pass, weight, features, "weight"),
                                vector_of(pass, bias, features, "bias"), features, epsilon);
  return std::exchange(state.moments.y, {});
}

void LayerNorm::input_gradient(const Pass& pass, const Tensor& grad,
                               std::span<InputGradient> inputs) {
  state.gradients = pass.kernels().layer_norm_backward(pass.stream, grad, state.x,
                                                       vector_of(pass, weight, features, "weight"),
                                                       state.moments, features);
  inputs[0].grad = in_layout(pass, std::exchange(state.gradients.x, {}), state.x_layout);
  state.x = {};
  state.moments = {};
}

void LayerNorm::weight_gradient(const Pass& pass) {
  write(pass, state.gradients.weight, weight);
  write(pass, state.gradients.bias, bias);
}

std::vector<Tensor> LayerNorm::saved() const {
  return {state.x, state.moments.mean, state.moments.inverse_deviation, state.gradients.weight,
          state.gradients.bias};
}

}  // namespace troupe::primitives
