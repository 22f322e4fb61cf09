#include "ops/reference/dropout.h"
#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"

namespace troupe::reference {
Tensor relu(const Stream&, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), DType::f64, x.device(), x.layout());
  for (std::int64_t e = 0; e < x.element_count(); ++e) {
    const double value = x.data<double>()[e];
    y.data<double>()[e] = value < 0 ? 0.0 : value;  // a NaN stays one
  }
  return y;
}

Tensor relu_backward(const Stream&, const Tensor& y, const Tensor& grad) {
  Tensor x_grad = Tensor::empty(y.shape(), DType::f64, y.device(), y.layout());
  for (std::int64_t e = 0; e < y.element_count(); ++e)
    x_grad.data<double>()[e] = y.data<double>()[e] <= 0 ? 0.0 : grad.data<double>()[e];
  return x_grad;
}

Tensor clamp(const Stream&, const Tensor& x, double low, double high) {
  Tensor y = Tensor::empty(x.shape(), DType::f64, x.device(), x.layout());
  for (std::int64_t e = 0; e < x.element_count(); ++e) {
    const double value = x.data<double>()[e];
    const double raised = value < low ? low : value;  // a NaN stays one
    y.data<double>()[e] = raised > high ? high : raised;
  }
  return y;
}

Tensor clamp_backward(const Stream&, const Tensor& x, const Tensor& grad, double low, double high) {
  Tensor x_grad = Tensor::empty(x.shape(), DType::f64, x.device(), x.layout());
  for (std::int64_t e = 0; e < x.element_count(); ++e) {
    const double value = x.data<double>()[e];
    const bool outside = value <= low || value >= high;
    x_grad.data<double>()[e] = outside ? 0.0 : grad.data<double>()[e];
  }
  return x_grad;
}

Tensor affine(const Stream&, const Tensor& x, double factor, double offset) {
  Tensor y = Tensor::empty(x.shape(), DType::f64, x.device(), x.layout());
  for (std::int64_t e = 0; e < x.element_count(); ++e)
    y.data<double>()[e] = x.data<double>()[e] * factor + offset;
  return y;
}

void accumulate(const Stream&, Tensor& a, const Tensor& b) {
  auto* sums = a.data<double>();
  const double* added = b.data<double>();
  for (std::int64_t e = 0, count = a.element_count(); e < count; ++e) sums[e] += added[e];
}

Tensor dropout(const Stream&, const Tensor& given, double probability, const RandomKey& random) {
  const Tensor x = row_major(given);
  Tensor y = Tensor::empty(x.shape(), DType::f64, x.device());
  DropoutScale scale(probability, random);
  for (std::int64_t e = 0; e < x.element_count(); ++e)
    y.data<double>()[e] = x.data<double>()[e] * scale(e);
  return in_layout(y, given.layout());
}

}  // namespace troupe::reference
