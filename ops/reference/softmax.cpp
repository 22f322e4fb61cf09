#include <algorithm>
#include <cmath>

#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

/// Calls visit(first) for each line along an axis: its elements are first, first + inner, ….
template <class Visit>
void for_lines(const Shape& shape, int axis, const Visit& visit) {
  std::int64_t inner = 1;
  for (int later = axis + 1; later < shape.rank(); ++later) inner *= shape[later];
  const std::int64_t length = shape[axis] * inner;
  for (std::int64_t first = 0; first < shape.element_count(); first += length)
    for (std::int64_t i = 0; i < inner; ++i) visit(first + i, inner);
}

}  // namespace

Tensor softmax(const Stream&, const Tensor& x, int axis, bool logarithm) {
  Tensor y = Tensor::empty(x.shape(), DType::f64, x.device());
  const std::int64_t length = x.shape()[axis];
  for_lines(x.shape(), axis, [&](std::int64_t first, std::int64_t step) {
    const double* from = x.data<double>() + first;
    double* to = y.data<double>() + first;
    double largest = -INFINITY, sum = 0;
    for (std::int64_t i = 0; i < length; ++i) largest = std::max(largest, from[i * step]);
    for (std::int64_t i = 0; i < length; ++i) sum += std::exp(from[i * step] - largest);
    for (std::int64_t i = 0; i < length; ++i) {
      const double shifted = from[i * step] - largest;
      to[i * step] = logarithm ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  });
  return y;
}

Tensor softmax_backward(const Stream&, const Tensor& y, const Tensor& grad, int axis,
                        bool logarithm) {
  Tensor x_grad = Tensor::empty(y.shape(), DType::f64, y.device());
  const std::int64_t length = y.shape()[axis];
  for_lines(y.shape(), axis, [&](std::int64_t first, std::int64_t step) {
    const double *output = y.data<double>() + first, *from = grad.data<double>() + first;
    double* to = x_grad.data<double>() + first;
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i)
      sum += logarithm ? from[i * step] : from[i * step] * output[i * step];
    for (std::int64_t i = 0; i < length; ++i)
      to[i * step] = logarithm ? from[i * step] - std::exp(output[i * step]) * sum
                               : output[i * step] * (from[i * step] - sum);
  });
  return x_grad;
}

}  // namespace troupe::reference
