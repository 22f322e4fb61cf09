#include "ops/optim/sgd.h"

#include "ops/reference/kernels.h"

namespace troupe::reference {
// PyTorch's SGD without dampening: g += decay * w; m = momentum * m + g (g at first);
// w -= lr * (nesterov ? g + momentum * m : m).
void sgd(const Stream&, const Sgd& options, double lr, const Tensor& weights,
         const Tensor& gradient, const Tensor& momentum, Tensor& new_weights,
         Tensor& new_momentum) {
  for (std::int64_t e = 0; e < weights.element_count(); ++e) {
    const double w = weights.data<double>()[e];
    const double g = gradient.data<double>()[e] + options.weight_decay * w;
    double direction = g;
    if (options.momentum != 0.0) {
      const double m = momentum.defined() ? options.momentum * momentum.data<double>()[e] + g : g;
      new_momentum.data<double>()[e] = m;
      direction = options.nesterov ? g + options.momentum * m : m;
    }
    new_weights.data<double>()[e] = w - lr * direction;
  }
}

}  // namespace troupe::reference
