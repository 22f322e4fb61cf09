// Broadcasting on row-major tensors: element e of the result is read from the operand's element
// that has the same place on all axes of more than one.

#include <algorithm>
#include <vector>

#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"

namespace troupe::reference {
namespace {

/// Where the operand has the element that belongs to element e of `shape`.
std::int64_t source(std::int64_t e, const Shape& shape, const Shape& operand) {
  std::int64_t place = 0, stride = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (operand[axis] != 1) place += e % shape[axis] * stride;
    stride *= operand[axis];
    e /= shape[axis];
  }
  return place;
}

double computed(ArithmeticOperation operation, double a, double b) {
  switch (operation) {
    case ArithmeticOperation::add:
      return a + b;
    case ArithmeticOperation::subtract:
      return a - b;
    case ArithmeticOperation::multiply:
      return a * b;
    case ArithmeticOperation::divide:
      break;
  }
  return a / b;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(static_cast<std::size_t>(a.rank()));
  for (int axis = 0; axis < a.rank(); ++axis) sizes.push_back(a[axis] == 1 ? b[axis] : a[axis]);
  return Shape(std::span<const std::int64_t>(sizes));
}

}  // namespace

Tensor arithmetic(const Stream&, ArithmeticOperation operation, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast_shape(a.shape(), b.shape());
  const Layout layout = a.shape() == shape   ? a.layout()
                        : b.shape() == shape ? b.layout()
                                             : Layout::row_major;
  const Tensor left = row_major(a), right = row_major(b);
  Tensor y = Tensor::empty(shape, DType::f64, a.device());
  for (std::int64_t e = 0; e < y.element_count(); ++e)
    y.data<double>()[e] = computed(operation, left.data<double>()[source(e, shape, a.shape())],
                                   right.data<double>()[source(e, shape, b.shape())]);
  return in_layout(y, layout);
}

Tensor broadcast(const Stream&, const Tensor& x, const Shape& shape, Layout layout, double factor) {
  const Tensor from = row_major(x);
  Tensor y = Tensor::empty(shape, DType::f64, x.device());
  for (std::int64_t e = 0; e < y.element_count(); ++e)
    y.data<double>()[e] = from.data<double>()[source(e, shape, x.shape())] * factor;
  return in_layout(y, layout);
}

Tensor sum_to(const Stream&, const Tensor& x, const Tensor& factor, const Shape& shape,
              double scale) {
  const Tensor from = row_major(x), other = factor.defined() ? row_major(factor) : Tensor();
  Tensor sums = Tensor::empty(shape, DType::f64, x.device());
  std::ranges::fill(sums.elements<double>(), 0.0);
  for (std::int64_t e = 0; e < x.element_count(); ++e) {
    const double by =
        factor.defined() ? other.data<double>()[source(e, x.shape(), factor.shape())] : 1.0;
    sums.data<double>()[source(e, x.shape(), shape)] += from.data<double>()[e] * by;
  }
  for (double& sum : sums.elements<double>()) sum *= scale;
  const bool one_channel = x.layout() != Layout::row_major && shape[1] == 1;
  return one_channel ? sums : in_layout(sums, x.layout());
}

}  // namespace troupe::reference
