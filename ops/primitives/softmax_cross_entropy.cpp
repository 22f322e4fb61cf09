#include "ops/primitives/softmax_cross_entropy.h"

#include <fmt/format.h>

#include "ops/on_device.h"
#include "runtime/error.h"

namespace troupe {

LossOutput softmax_cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient) {
  if (logits.rank() != 2 || targets.shape() != Shape{logits.dim(0)})
    throw Error(ErrorCode::bad_shape,
                fmt::format("softmax_cross_entropy: logits are {}, targets {}; they must be "
                            "(N, classes) and (N)",
                            to_string(logits.shape()), to_string(targets.shape())),
                "check the model's last layer");
  if (targets.dtype() != DType::i64)
    throw Error(ErrorCode::bad_shape, fmt::format("softmax_cross_entropy: targets are {}, not i64",
                                                  name_of(targets.dtype())));
  return kernels(logits.device(), logits.dtype())
      .softmax_cross_entropy(stream, logits, targets, scale, with_gradient);
}

LossTotals read_totals(const Stream& stream, const LossOutput& output) {
  const Tensor totals = on_cpu(stream, output.totals);
  return {.loss_sum = totals.data<double>()[0],
          .correct = static_cast<std::int64_t>(totals.data<double>()[1])};
}

namespace primitives {

Tensor SoftmaxCrossEntropy::forward(const Pass& pass, const Tensor& logits) {
  state.logits = logits;
  const LossOutput output = softmax_cross_entropy(pass.stream, logits, targets, scale, false);
  Tensor result = Tensor::empty(Shape{}, logits.dtype(), pass.stream.device);
  pass.kernels().scale(pass.stream, output.totals.narrow(0, 1).reshape(Shape{}), scale, result);
  return result;
}

void SoftmaxCrossEntropy::input_gradient(const Pass& pass, const Tensor& grad,
                                         std::span<InputGradient> inputs) {
  if (!inputs[0].wanted) return;
  const Tensor scalar = on_device(Stream{}, on_cpu(pass.stream, grad), DType::f64);
  inputs[0].grad = softmax_cross_entropy(pass.stream, state.logits, targets,
                                         scale * *scalar.data<double>(), true)
                       .logits_grad;
}

}  // namespace primitives
}  // namespace troupe
