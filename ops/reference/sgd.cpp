#include "ops/reference/families.h"

namespace troupe::reference {
namespace {

// PyTorch's SGD without dampening: g += decay * w; m = momentum * m + g (g at first);
// w -= lr * (nesterov ? g + momentum * m : m).
template <class T>
void sgd(const Stream&, const SgdOptions& options, double lr, const Tensor& weights,
         const Tensor& gradient, const Tensor& momentum, Tensor& new_weights,
         Tensor& new_momentum) {
  for (std::int64_t e = 0; e < weights.element_count(); ++e) {
    const double w = weights.data<T>()[e];
    const double g = gradient.data<T>()[e] + options.weight_decay * w;
    double direction = g;
    if (options.momentum != 0.0) {
      const double m = momentum.defined() ? options.momentum * momentum.data<T>()[e] + g : g;
      new_momentum.data<T>()[e] = static_cast<T>(m);
      direction = options.nesterov ? g + options.momentum * m : m;
    }
    new_weights.data<T>()[e] = static_cast<T>(w - lr * direction);
  }
}

}  // namespace

template <class T>
void fill_sgd(KernelTable& table) {
  table.sgd = sgd<T>;
}

template void fill_sgd<float>(KernelTable&);
template void fill_sgd<double>(KernelTable&);

}  // namespace troupe::reference
