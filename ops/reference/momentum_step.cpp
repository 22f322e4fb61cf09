#include "ops/reference/kernels.h"

namespace troupe::reference {

void momentum_step(const Stream&, const MomentumStep& factors, const Tensor& weights,
                   const Tensor& gradient, const Tensor& momentum, Tensor& new_weights,
                   Tensor& new_momentum) {
  for (std::int64_t e = 0; e < weights.element_count(); ++e) {
    const double w = weights.data<double>()[e];
    double g = gradient.data<double>()[e];
    if (factors.weight_decay != 0.0) g += factors.weight_decay * w;  // w may be infinite
    double direction = g;
    if (factors.momentum != 0.0) {
      const double m = momentum.defined() ? factors.momentum * momentum.data<double>()[e] + g : g;
      new_momentum.data<double>()[e] = m;
      direction = factors.nesterov ? g + factors.momentum * m : m;
    }
    new_weights.data<double>()[e] = w - factors.lr * direction;
  }
}

}  // namespace troupe::reference
