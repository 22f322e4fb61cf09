#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/attention_sizes.h"
#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// The scores of a token; minus infinity for what it does not see.
std::vector<double> scores_of(const AttentionSizes& s, const AttentionOptions& options,
                              const double* q, const double* k, const MaskRows<double>& mask,
                              std::int64_t outer, std::int64_t token) {
  std::vector<double> scores(static_cast<std::size_t>(s.keys),
                             -std::numeric_limits<double>::infinity());
  for (std::int64_t key = 0; key < s.seen(options.causal, token); ++key) {
    double& score = scores[static_cast<std::size_t>(key)];
    score = options.scale * dot(q, k + key * s.features, s.features);
    if (!mask.defined()) continue;
    const MaskRow<double> row = mask.row(outer, token);
    score += row.first[key * row.stride];
  }
  return scores;
}

/// Makes shares of the scores, zeroes where none is seen; returns the logarithm of their sum.
/// Divides by the sum: beside a large number, such as a mask of -1e38, its logarithm is rounded
/// off.
double normalise(std::vector<double>& scores) {
  double largest = -std::numeric_limits<double>::infinity(), sum = 0;
  for (const double score : scores)  // a NaN is the largest
    if (!(score <= largest) && !std::isnan(largest)) largest = score;
  if (std::isinf(largest) && largest < 0) {
    std::ranges::fill(scores, 0.0);
    return largest;
  }
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
  return largest + std::log(sum);
}

}  // namespace

AttentionOutput attention(const Stream&, const Tensor& q, const Tensor& k, const Tensor& v,
                          const Tensor& mask, const AttentionOptions& options) {
  const AttentionSizes s(q, k, v);
  const MaskRows<double> masks(mask, q.shape());
  Tensor log_sums = Tensor::empty({s.outer, s.tokens}, DType::f64, q.device());
  Tensor y = Tensor::empty(AttentionSizes::y_shape(q, v), DType::f64, q.device());
  std::ranges::fill(y.elements<double>(), 0.0);
  for (std::int64_t row = 0; row < s.outer * s.tokens; ++row) {
    const std::int64_t outer = row / s.tokens, token = row % s.tokens;
    auto shares = scores_of(s, options, q.data<double>() + row * s.features,
                            k.data<double>() + outer * s.keys * s.features, masks, outer, token);
    log_sums.data<double>()[row] = normalise(shares);
    for (std::int64_t key = 0; key < s.keys; ++key)
      for (std::int64_t i = 0; i < s.outputs; ++i)
        y.data<double>()[row * s.outputs + i] +=
            shares[static_cast<std::size_t>(key)] *
            v.data<double>()[(outer * s.keys + key) * s.outputs + i];
  }
  return {y, log_sums};
}

AttentionGradients attention_backward(const Stream&, const Tensor& grad, const Tensor& q,
                                      const Tensor& k, const Tensor& v, const Tensor& mask,
                                      const AttentionOutput& output,
                                      const AttentionOptions& options) {
  const AttentionSizes s(q, k, v);
  const MaskRows<double> masks(mask, q.shape());
  AttentionGradients result;
  for (auto [tensor, gradient] :
       {std::pair{&q, &result.q}, std::pair{&k, &result.k}, std::pair{&v, &result.v}}) {
    *gradient = Tensor::empty(tensor->shape(), DType::f64, q.device());
    std::ranges::fill(gradient->elements<double>(), 0.0);
  }
  for (std::int64_t row = 0; row < s.outer * s.tokens; ++row) {
    const std::int64_t outer = row / s.tokens, token = row % s.tokens;
    const double* query = q.data<double>() + row * s.features;
    const double* keys = k.data<double>() + outer * s.keys * s.features;
    const double* slopes = grad.data<double>() + row * s.outputs;
    auto shares = scores_of(s, options, query, keys, masks, outer, token);
    normalise(shares);
    const double mean = dot(slopes, output.y.data<double>() + row * s.outputs, s.outputs);
    for (std::int64_t key = 0; key < s.keys; ++key) {
      const std::int64_t at = outer * s.keys + key;
      const double p = shares[static_cast<std::size_t>(key)];
      const double* values = v.data<double>() + at * s.outputs;
      const double slope = options.scale * p * (dot(slopes, values, s.outputs) - mean);
      for (std::int64_t i = 0; i < s.outputs; ++i)
        result.v.data<double>()[at * s.outputs + i] += p * slopes[i];
      for (std::int64_t i = 0; i < s.features; ++i) {
        result.q.data<double>()[row * s.features + i] += slope * keys[key * s.features + i];
        result.k.data<double>()[at * s.features + i] += slope * query[i];
      }
    }
  }
  return result;
}

}  // namespace troupe::reference
