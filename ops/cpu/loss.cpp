#include "ops/reference/loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/targets.h"
#include "runtime/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/cpu/loss.cpp"
#include <hwy/foreach_target.h>

#include "hwy/contrib/math/math-inl.h"  // quoted, so that it stays below foreach_target.h
#include "ops/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace troupe::cpu::HWY_NAMESPACE {

/// Writes exp(logit - shift) and returns the sum, added in f64.
double exponentials(const float* logits, float shift, float* result, std::int64_t classes) {
  for_lanes(classes, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Exp(d, hn::Sub(hn::LoadU(d, logits + i), hn::Set(d, shift))), d, result + i);
  });
  double sum = 0;
  for (std::int64_t i = 0; i < classes; ++i) sum += result[i];
  return sum;
}

void scale_by(float* values, float factor, std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), hn::Set(d, factor)), d, values + i);
  });
}

}  // namespace troupe::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::cpu {

HWY_EXPORT(exponentials);
HWY_EXPORT(scale_by);

namespace {

void check(const Tensor& logits, const Tensor& targets) {
  if (logits.rank() != 2 || logits.dim(1) == 0 || targets.shape() != Shape{logits.dim(0)})
    throw Error(ErrorCode::bad_shape,
                fmt::format("softmax_cross_entropy: logits {}, targets {}; they must be "
                            "[N, classes] and [N]",
                            to_string(logits.shape()), to_string(targets.shape())));
  reference::check_targets(targets, logits.dim(1));
}

/// The first largest; a value that is not a number counts as the largest, as in PyTorch.
std::int64_t prediction(const float* logits, std::int64_t classes) {
  std::int64_t best = 0;
  for (std::int64_t i = 1; i < classes; ++i)
    if (logits[i] > logits[best] || (std::isnan(logits[i]) && !std::isnan(logits[best]))) best = i;
  return best;
}

struct Sample {
  double loss;
  bool correct;
};

/// Adds the part of label smoothing to the loss of a sample and to its gradient.
void smooth(const float* logits, std::int64_t classes, std::int64_t target, double scale,
            double smoothing, double log_normalizer, double& loss, float* gradient) {
  const double each = smoothing / static_cast<double>(classes);
  double all = 0;
  for (std::int64_t i = 0; i < classes; ++i) all += log_normalizer - logits[i];
  loss = (1.0 - smoothing) * loss + each * all;
  for (std::int64_t i = 0; i < classes; ++i) gradient[i] -= static_cast<float>(scale * each);
  gradient[target] += static_cast<float>(scale * smoothing);
}

/// Loss of a sample with class weights. `exponents` are exp(logit - shift), which
/// `sum` adds up, and become the gradient times `scale`.
double weighted_loss(const float* logits, std::span<const double> weights, std::int64_t target,
                     double scale, double smoothing, double log_normalizer, double sum,
                     float* exponents) {
  const double each = smoothing / static_cast<double>(weights.size());
  const auto share = [&](std::size_t c) {
    return weights[c] * (each + (std::cmp_equal(c, target) ? 1.0 - smoothing : 0.0));
  };
  double all = 0, loss = 0;
  for (std::size_t c = 0; c < weights.size(); ++c) {
    all += share(c);
    loss += share(c) * (log_normalizer - logits[c]);
  }
  HWY_DYNAMIC_DISPATCH(scale_by)
  (exponents, static_cast<float>(scale * all / sum), std::ssize(weights));
  for (std::size_t c = 0; c < weights.size(); ++c)
    exponents[c] -= static_cast<float>(scale * share(c));
  return loss;
}

/// `exponents` has room for a value per class, and becomes the gradient times `scale`.
Sample cross_entropy(const float* logits, std::int64_t classes, std::int64_t target, double scale,
                     double smoothing, std::span<const double> weights, float* exponents) {
  const std::int64_t predicted = prediction(logits, classes);
  const float shift = logits[predicted];
  const double sum = HWY_DYNAMIC_DISPATCH(exponentials)(logits, shift, exponents, classes);
  if (!weights.empty())
    return {weighted_loss(logits, weights, target, scale, smoothing, std::log(sum) + shift, sum,
                          exponents),
            predicted == target};
  HWY_DYNAMIC_DISPATCH(scale_by)(exponents, static_cast<float>(scale / sum), classes);
  exponents[target] -= static_cast<float>(scale);
  double loss = std::log(sum) + (static_cast<double>(shift) - logits[target]);
  if (smoothing > 0)
    smooth(logits, classes, target, scale, smoothing, std::log(sum) + shift, loss, exponents);
  return {loss, predicted == target};
}

}  // namespace

LossOutput softmax_cross_entropy(const Stream& stream, const Tensor& logits, const Tensor& targets,
                                 double scale, bool with_gradient, double label_smoothing,
                                 const Tensor& class_weights) {
  check(logits, targets);
  const std::int64_t count = logits.dim(0), classes = logits.dim(1);
  LossOutput result;
  if (with_gradient) result.logits_grad = Tensor::empty(logits.shape(), DType::f32, stream.device);
  const float* rows = logits.data<float>();
  const std::int64_t* labels = targets.data<std::int64_t>();
  const auto weights =
      class_weights.defined() ? class_weights.elements<double>() : std::span<const double>{};
  float* gradient = with_gradient ? result.logits_grad.data<float>() : nullptr;
  std::vector<Sample> samples(static_cast<std::size_t>(count));
  parallel(stream, count, std::max<std::int64_t>(1, elements_per_thread / classes),
           [&](std::int64_t begin, std::int64_t end) {
             std::vector<float> scratch(with_gradient ? 0 : static_cast<std::size_t>(classes));
             for (std::int64_t i = begin; i < end; ++i)
               samples[static_cast<std::size_t>(i)] =
                   cross_entropy(rows + i * classes, classes, labels[i], scale, label_smoothing,
                                 weights, gradient ? gradient + i * classes : scratch.data());
           });
  result.totals = Tensor::empty({2}, DType::f64, stream.device);
  const auto totals = result.totals.elements<double>();
  std::ranges::fill(totals, 0.0);
  for (const Sample& sample : samples) {
    totals[0] += sample.loss;
    totals[1] += sample.correct ? 1.0 : 0.0;
  }
  return result;
}

}  // namespace troupe::cpu
#endif
