#include <cmath>

#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

// torch.lerp, which computes from the nearer end.
double lerp(double from, double to, double weight) {
  return weight < 0.5 ? from + weight * (to - from) : to - (to - from) * (1.0 - weight);
}

void apply(const AdamUpdate& update) {
  const auto& [factors, weights, gradient, exp_avg, exp_avg_sq, new_weights, new_exp_avg,
               new_exp_avg_sq] = update;
  const double kept = factors.decoupled_decay ? 1.0 - factors.lr * factors.weight_decay : 1.0;
  const double decay = factors.decoupled_decay ? 0.0 : factors.weight_decay;
  const double step_size = factors.lr / factors.correction1, root = std::sqrt(factors.correction2);
  for (std::int64_t e = 0; e < weights.element_count(); ++e) {
    const double w = weights.data<double>()[e];
    double g = factors.scaling.of(gradient.data<double>()[e]);
    if (decay != 0.0) g += decay * w;
    const double m =
        lerp(exp_avg.defined() ? exp_avg.data<double>()[e] : 0.0, g, 1.0 - factors.beta1);
    const double before = exp_avg_sq.defined() ? exp_avg_sq.data<double>()[e] : 0.0;
    const double v = factors.beta2 * before + (1.0 - factors.beta2) * g * g;
    new_exp_avg.data<double>()[e] = m;
    new_exp_avg_sq.data<double>()[e] = v;
    new_weights.data<double>()[e] =
        kept * w - step_size * m / (std::sqrt(v) / root + factors.epsilon);
  }
}

}  // namespace

void adam_step(const Stream&, const std::vector<AdamUpdate>& updates) {
  for (const AdamUpdate& update : updates) apply(update);
}

}  // namespace troupe::reference
