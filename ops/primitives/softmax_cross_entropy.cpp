#include "ops/primitives/softmax_cross_entropy.h"

#include <fmt/format.h>

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

namespace primitives {
namespace {

double scalar(const Tensor& tensor) {
  return tensor.dtype() == DType::f64 ? *tensor.data<double>()
                                      : static_cast<double>(*tensor.data<float>());
}

}  // namespace

Tensor SoftmaxCrossEntropy::forward(const Pass& pass, const Tensor& logits) {
  state.logits = logits;
  const double loss =
      scale * softmax_cross_entropy(pass.stream, logits, targets, scale, false).loss_sum;
  Tensor result = Tensor::empty(Shape{}, logits.dtype());
  if (logits.dtype() == DType::f64)
    *result.data<double>() = loss;
  else
    *result.data<float>() = static_cast<float>(loss);
  return result;
}

void SoftmaxCrossEntropy::input_gradient(const Pass& pass, const Tensor& grad,
                                         std::span<InputGradient> inputs) {
  if (!inputs[0].wanted) return;
  inputs[0].grad =
      softmax_cross_entropy(pass.stream, state.logits, targets, scale * scalar(grad), true)
          .logits_grad;
}

}  // namespace primitives
}  // namespace troupe
