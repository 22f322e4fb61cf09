#include "ops/primitives/batch_norm2d.h"

#include <fmt/format.h>

#include "ops/on_device.h"
#include "ops/primitives/checks.h"
#include "runtime/error.h"

namespace troupe::primitives {
namespace {

// Elements that each channel's moments are taken over.
std::int64_t elements_of_a_channel(const Tensor& x) { return x.element_count() / x.dim(1); }

void check(const Pass& pass, const Tensor& x, std::int64_t channels, const Tensor& residual) {
  if ((x.rank() != 4 && x.rank() != 2) || x.dim(1) != channels)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}, the layer takes (N, {}, H, W) or (N, {})",
                            BatchNorm2d::name, to_string(x.shape()), channels, channels),
                "check its features against the channels of the layer before it");
  if (pass.training && elements_of_a_channel(x) < 2)
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {} has fewer than two values per channel, too few for training",
                            BatchNorm2d::name, to_string(x.shape())),
                "lower `micro_batches`, or raise `batch_size`; where the last batch of an epoch is "
                "smaller, set `drop_last` to true");
  if (residual.defined() && residual.shape() != x.shape())
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: the input is {}, the residual {}; they must be equal",
                            BatchNorm2d::name, to_string(x.shape()), to_string(residual.shape())),
                "scale the residual to the block's channels");
}

}  // namespace

Tensor BatchNorm2d::forward(const Pass& pass, const Tensor& x, const Tensor& residual) {
  check(pass, x, pass.weight(weight).element_count(), residual);
  NormEpilogue epilogue{.relu = relu, .residual_first = residual_first};
  if (residual.defined()) {
    state.residual_layout = residual.layout();
    // In mixed precision the norm may have 16 bits and the residual not.
    epilogue.residual = in_layout(pass, on_device(pass.stream, residual, x.dtype()), x.layout());
  }
  ChannelMoments moments;
  if (pass.training) {
    epilogue.dropout = dropout;
    epilogue.random = pass.random;
    epilogue.random.operation = dropout_operation;
    moments = pass.kernels().channel_moments(pass.stream, x, pass.weight(weight), pass.weight(bias),
                                             epsilon, pass.statistic(running_mean),
                                             pass.statistic(running_variance));
  } else {
    moments = {pass.buffer(running_mean), pass.buffer(running_variance)};
  }
  Tensor z = pass.kernels().batch_norm(pass.stream, x, pass.weight(weight), pass.weight(bias),
                                       moments, epsilon, epilogue);
  state.x = x;
  state.z = z;
  state.epilogue = std::move(epilogue);
  state.moments = std::move(moments);
  return z;
}

void BatchNorm2d::input_gradient(const Pass& pass, const Tensor& grad,
                                 std::span<InputGradient> inputs) {
  // Undefined if the weight half runs later: only then do its gradients have a place.
  const auto place_of = [&](ParameterIndex index) {
    return pass.trains(index) ? pass.weight_gradient(index) : Tensor();
  };
  Tensor weight_gradient = place_of(weight), bias_gradient = place_of(bias);
  state.gradients = pass.kernels().batch_norm_backward(
      pass.stream, grad, state.x, state.z, pass.weight(weight), pass.weight(bias), state.moments,
      epsilon, state.epilogue, /*batch_moments=*/true, weight_gradient, bias_gradient);
  inputs[0].grad = std::move(state.gradients.x);
  const Tensor through_relu = std::move(state.gradients.residual);
  if (inputs.size() > 1 && inputs[1].wanted)
    inputs[1].grad =
        in_layout(pass, through_relu.defined() ? through_relu : grad, state.residual_layout);
  state.x = state.z = {};
  state.epilogue = {};
  state.moments = {};
}

void BatchNorm2d::weight_gradient(const Pass& pass) {
  const auto give = [&](const Tensor& gradient, ParameterIndex index) {
    if (!pass.trains(index)) return;
    Tensor& place = pass.weight_gradient(index);
    if (gradient.raw() != place.raw()) pass.kernels().copy(pass.stream, gradient, place);
  };
  give(state.gradients.weight, weight);
  give(state.gradients.bias, bias);
}

std::vector<Tensor> BatchNorm2d::saved() const {
  return {state.x,
          state.z,
          state.epilogue.residual,
          state.moments.mean,
          state.moments.variance,
          state.moments.norm,
          state.gradients.weight,
          state.gradients.bias};
}

}  // namespace troupe::primitives
