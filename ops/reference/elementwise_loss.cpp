#include "ops/reference/elementwise_loss.h"

#include <algorithm>

#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

template <ElementLoss (*of)(double x, double target)>
LossOutput mean_over_outputs(const Tensor& outputs, const Tensor& targets, double scale,
                             bool with_gradient) {
  LossOutput result{.totals = Tensor::empty({2}, DType::f64, outputs.device()), .logits_grad = {}};
  std::ranges::fill(result.totals.elements<double>(), 0.0);
  if (with_gradient)
    result.logits_grad = Tensor::empty(outputs.shape(), DType::f64, outputs.device());
  const std::int64_t count = outputs.dim(1);
  for (std::int64_t n = 0; n < outputs.dim(0); ++n) {
    const ElementLoss sample = mean_loss<of>(
        outputs.data<double>() + n * count, targets.data<double>() + n * count, count, scale,
        with_gradient ? result.logits_grad.data<double>() + n * count : nullptr);
    result.totals.data<double>()[0] += sample.loss;
    result.totals.data<double>()[1] += sample.correct ? 1.0 : 0.0;
  }
  return result;
}

}  // namespace

LossOutput squared_error(const Stream&, const Tensor& outputs, const Tensor& targets, double scale,
                         bool with_gradient) {
  return mean_over_outputs<squared_error_of>(outputs, targets, scale, with_gradient);
}

LossOutput binary_cross_entropy(const Stream&, const Tensor& outputs, const Tensor& targets,
                                double scale, bool with_gradient) {
  return mean_over_outputs<binary_cross_entropy_of>(outputs, targets, scale, with_gradient);
}

}  // namespace troupe::reference
