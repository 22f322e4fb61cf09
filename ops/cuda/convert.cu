#include "ops/cuda/convert.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/map.h"

namespace troupe::cuda {
namespace {

struct Same {
  template <class T>
  __device__ T operator()(T x) const {
    return x;
  }
};

}  // namespace

void convert(const Stream& stream, const Tensor& from, Tensor& to) {
  visit_conversion(from.dtype(), to.dtype(), [&]<class From, class To>(From, To) {
    map(stream, Same(), from.element_count(), output<To>(stream, to), input<From>(stream, from));
  });
}

Tensor in_form(const Stream& stream, const Tensor& tensor, Layout layout, DType dtype) {
  if (tensor.layout() == layout && tensor.dtype() == dtype) return tensor;
  Tensor to = result(stream, tensor.shape(), dtype, layout);
  reorder(stream, tensor, to);
  return to;
}

}  // namespace troupe::cuda
