#include "ops/reference/dropout.h"
#include "ops/reference/families.h"
#include "ops/reference/reorder.h"

namespace troupe::reference {
namespace {

template <class T>
Tensor relu(const Stream&, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), dtype_of<T>, x.device(), x.layout());
  for (std::int64_t e = 0; e < x.element_count(); ++e) {
    const T value = x.data<T>()[e];
    y.data<T>()[e] = value < 0 ? T(0) : value;  // a NaN stays one
  }
  return y;
}

template <class T>
Tensor relu_backward(const Stream&, const Tensor& y, const Tensor& grad) {
  Tensor x_grad = Tensor::empty(y.shape(), dtype_of<T>, y.device(), y.layout());
  for (std::int64_t e = 0; e < y.element_count(); ++e)
    x_grad.data<T>()[e] = y.data<T>()[e] > 0 ? grad.data<T>()[e] : T(0);
  return x_grad;
}

template <class T>
Tensor add(const Stream&, const Tensor& a, const Tensor& b) {
  Tensor sum = Tensor::empty(a.shape(), dtype_of<T>, a.device(), a.layout());
  for (std::int64_t e = 0; e < a.element_count(); ++e)
    sum.data<T>()[e] = a.data<T>()[e] + b.data<T>()[e];
  return sum;
}

template <class T>
void accumulate(const Stream&, Tensor& a, const Tensor& b) {
  for (std::int64_t e = 0; e < a.element_count(); ++e) a.data<T>()[e] += b.data<T>()[e];
}

template <class T>
Tensor dropout(const Stream&, const Tensor& given, float probability, const RandomKey& random) {
  const Tensor x = row_major<T>(given);
  Tensor y = Tensor::empty(x.shape(), dtype_of<T>, x.device());
  DropoutScale scale(probability, random);
  for (std::int64_t e = 0; e < x.element_count(); ++e)
    y.data<T>()[e] = static_cast<T>(x.data<T>()[e] * scale(e));
  return in_layout<T>(y, given.layout());
}

}  // namespace

template <class T>
void fill_elementwise(KernelTable& table) {
  table.relu = relu<T>;
  table.relu_backward = relu_backward<T>;
  table.add = add<T>;
  table.accumulate = accumulate<T>;
  table.dropout = dropout<T>;
}

template void fill_elementwise<float>(KernelTable&);
template void fill_elementwise<double>(KernelTable&);

}  // namespace troupe::reference
