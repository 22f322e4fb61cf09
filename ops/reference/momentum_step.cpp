#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

void apply(const MomentumUpdate& update) {
  const auto& [factors, weights, gradient, momentum, new_weights, new_momentum] = update;
  const double *from = weights.data<double>(), *gradients = gradient.data<double>();
  const bool has_momentum = factors.momentum != 0.0;
  const double* old = has_momentum && momentum.defined() ? momentum.data<double>() : nullptr;
  double *to = new_weights.data<double>(),
         *next = has_momentum ? new_momentum.data<double>() : nullptr;
  for (std::int64_t e = 0, count = weights.element_count(); e < count; ++e) {
    const double w = from[e];
    double g = factors.scaling.of(gradients[e]);
    if (factors.weight_decay != 0.0) g += factors.weight_decay * w;  // w may be infinite
    double direction = g;
    if (has_momentum) {
      const double m = old != nullptr ? factors.momentum * old[e] + g : g;
      next[e] = m;
      direction = factors.nesterov ? g + factors.momentum * m : m;
    }
    to[e] = w - factors.lr * direction;
  }
}

}  // namespace

void momentum_step(const Stream&, const std::vector<MomentumUpdate>& updates) {
  for (const MomentumUpdate& update : updates) apply(update);
}

}  // namespace troupe::reference
