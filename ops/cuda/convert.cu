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

/// f64 would be rounded twice on its way to 16 bits.
template <class From, class To>
constexpr bool converts = std::is_same_v<From, float> || std::is_same_v<To, float> ||
                          (std::is_same_v<From, double> && std::is_same_v<To, double>);

}  // namespace

void convert(const Stream& stream, const Tensor& from, Tensor& to) {
  visit_stored(from.dtype(), [&]<class From>(From, auto) {
    visit_stored(to.dtype(), [&]<class To>(To, auto) {
      if constexpr (converts<From, To>)
        map(stream, Same(), from.element_count(), output<To>(stream, to),
            input<From>(stream, from));
      else
        check_f32(from.dtype() == DType::f64 ? to.dtype() : from.dtype());
    });
  });
}

void convert_and_reorder(const Stream& stream, const Tensor& from, Tensor& to) {
  if (from.layout() == to.layout()) return convert(stream, from, to);
  if (from.dtype() == to.dtype()) return reorder(stream, from, to);
  if (size_of(from.dtype()) < size_of(to.dtype()))
    return reorder(stream, in_form(stream, from, from.layout(), to.dtype()), to);
  convert(stream, in_form(stream, from, to.layout(), from.dtype()), to);
}

Tensor in_form(const Stream& stream, const Tensor& tensor, Layout layout, DType dtype) {
  if (tensor.layout() == layout && tensor.dtype() == dtype) return tensor;
  Tensor to = result(stream, tensor.shape(), dtype, layout);
  convert_and_reorder(stream, tensor, to);
  return to;
}

}  // namespace troupe::cuda
