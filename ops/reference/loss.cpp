#include "ops/reference/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "ops/reference/kernels.h"
#include "runtime/error.h"

namespace troupe::reference {
void check_targets(const Tensor& targets, std::int64_t classes) {
  const auto values = targets.elements<std::int64_t>();
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i] < 0 || values[i] >= classes)
      throw Error(ErrorCode::bad_shape,
                  fmt::format("softmax_cross_entropy: target {} of sample {} is outside [0, {})",
                              values[i], i, classes),
                  "set `Model::classes`, or the outputs of a model of your own, to the number of "
                  "classes of the data set");
}

namespace {

/// Loss of one sample with class weights; writes its gradient unless that is null. `log_sum` is the
/// logarithm of the sum of all exp(logit).
double weighted_cross_entropy(const double* row, std::span<const double> weights,
                              std::int64_t target, double scale, double label_smoothing,
                              double log_sum, double* gradient) {
  const double each = label_smoothing / static_cast<double>(weights.size());
  const auto share = [&](std::size_t c) {
    return weights[c] * (each + (std::cmp_equal(c, target) ? 1.0 - label_smoothing : 0.0));
  };
  double all = 0, loss = 0;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    all += share(c);
    loss += share(c) * (log_sum - row[c]);
  }
  for (std::size_t c = 0; gradient != nullptr && c < weights.size(); ++c)
    gradient[c] = scale * (all * std::exp(row[c] - log_sum) - share(c));
  return loss;
}

}  // namespace

LossOutput softmax_cross_entropy(const Stream&, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient, double label_smoothing,
                                 const Tensor& class_weights) {
  const std::int64_t classes = logits.dim(1);
  const double each = label_smoothing / static_cast<double>(classes);
  check_targets(targets, classes);
  LossOutput result;
  if (with_gradient)
    result.logits_grad = Tensor::empty(logits.shape(), DType::f64, logits.device());
  result.totals = Tensor::empty({2}, DType::f64, logits.device());
  const auto totals = result.totals.elements<double>();
  std::ranges::fill(totals, 0.0);
  for (std::int64_t n = 0; n < logits.dim(0); ++n) {
    const double* row = logits.data<double>() + n * classes;
    const std::int64_t target = targets.data<std::int64_t>()[n];
    // The first largest; what is not a number counts as the largest, as in PyTorch.
    const double* largest = std::max_element(row, row + classes, [](double a, double b) {
      return !std::isnan(a) && (a < b || std::isnan(b));
    });
    const double shift = *largest;  // keeps exp from overflowing
    double sum = 0;
    for (std::int64_t c = 0; c < classes; ++c) sum += std::exp(row[c] - shift);
    totals[1] += largest - row == target ? 1.0 : 0.0;
    if (class_weights.defined()) {
      totals[0] += weighted_cross_entropy(
          row, class_weights.elements<double>(), target, scale, label_smoothing,
          std::log(sum) + shift,
          with_gradient ? result.logits_grad.data<double>() + n * classes : nullptr);
      continue;
    }
    double loss = std::log(sum) + shift - row[target];
    if (label_smoothing > 0) {
      loss *= 1.0 - label_smoothing;
      for (std::int64_t c = 0; c < classes; ++c) loss += each * (std::log(sum) + shift - row[c]);
    }
    totals[0] += loss;
    if (!with_gradient) continue;
    for (std::int64_t c = 0; c < classes; ++c) {
      const double probability = std::exp(row[c] - shift) / sum;
      result.logits_grad.data<double>()[n * classes + c] =
          scale * (probability - each - (c == target ? 1.0 - label_smoothing : 0.0));
    }
  }
  return result;
}

}  // namespace troupe::reference
