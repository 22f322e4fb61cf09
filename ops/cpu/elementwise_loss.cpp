#include "ops/reference/elementwise_loss.h"

#include <algorithm>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"

namespace troupe::cpu {
namespace {

using reference::ElementLoss;

template <ElementLoss (*of)(double x, double target)>
LossOutput mean_over_outputs(const Stream& stream, const Tensor& outputs, const Tensor& targets,
                             double scale, bool with_gradient) {
  const std::int64_t samples = outputs.dim(0), count = outputs.dim(1);
  LossOutput result{.totals = Tensor::empty({2}, DType::f64, stream.device), .logits_grad = {}};
  std::ranges::fill(result.totals.elements<double>(), 0.0);
  if (with_gradient) result.logits_grad = Tensor::empty(outputs.shape(), DType::f32, stream.device);
  const float *x = outputs.data<float>(), *wanted = targets.data<float>();
  float* gradient = with_gradient ? result.logits_grad.data<float>() : nullptr;
  std::vector<ElementLoss> losses(static_cast<std::size_t>(samples));
  parallel(stream, samples, std::max<std::int64_t>(1, elements_per_thread / count),
           [&](std::int64_t begin, std::int64_t end) {
             for (std::int64_t i = begin; i < end; ++i)
               losses[static_cast<std::size_t>(i)] =
                   reference::mean_loss<of>(x + i * count, wanted + i * count, count, scale,
                                            gradient != nullptr ? gradient + i * count : nullptr);
           });
  const auto totals = result.totals.elements<double>();
  for (const ElementLoss& sample : losses) {
    totals[0] += sample.loss;
    totals[1] += sample.correct ? 1.0 : 0.0;
  }
  return result;
}

}  // namespace

LossOutput squared_error(const Stream& stream, const Tensor& outputs, const Tensor& targets,
                         double scale, bool with_gradient) {
  return mean_over_outputs<reference::squared_error_of>(stream, outputs, targets, scale,
                                                        with_gradient);
}

LossOutput binary_cross_entropy(const Stream& stream, const Tensor& outputs, const Tensor& targets,
                                double scale, bool with_gradient) {
  return mean_over_outputs<reference::binary_cross_entropy_of>(stream, outputs, targets, scale,
                                                               with_gradient);
}

}  // namespace troupe::cpu
