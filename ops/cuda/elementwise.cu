// Kernels that compute each element of a result from the elements at the same place.

#include "ops/cuda/kernels.h"
#include "ops/cuda/map.h"
#include "ops/cuda/reduce.h"

namespace troupe::cuda {
namespace {

template <class T>
struct Relu {
  __device__ T operator()(T x) const { return x > 0 || x != x ? x : T(0); }
};
template <class T>
struct ReluGradient {
  __device__ T operator()(T y, T grad) const { return y <= 0 ? T(0) : grad; }
};
template <class T>
struct Clamp {
  T low, high;
  __device__ T operator()(T x) const {
    const T raised = x < low ? low : x;  // a NaN stays one
    return raised > high ? high : raised;
  }
};
template <class T>
struct ClampGradient {
  T low, high;
  __device__ T operator()(T x, T grad) const { return x <= low || x >= high ? T(0) : grad; }
};
template <class T>
struct Affine {
  T factor, offset;
  __device__ T operator()(T x) const { return x * factor + offset; }
};
/// f of each element of x.
template <template <class> class F, class... Factors>
Tensor map_one(const Stream& stream, const Tensor& x, Factors... factors) {
  Tensor y = result_like(stream, x);
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    map(stream, F<T>{static_cast<T>(factors)...}, x.element_count(), output<S>(stream, y),
        input<S>(stream, x));
  });
  return y;
}
/// f of each element of a and b.
template <template <class> class F, class... Factors>
Tensor map_two(const Stream& stream, const Tensor& a, const Tensor& b, Factors... factors) {
  Tensor y = result_like(stream, a);
  visit_stored(a.dtype(), [&]<class S, class T>(S, T) {
    map(stream, F<T>{static_cast<T>(factors)...}, a.element_count(), output<S>(stream, y),
        input<S>(stream, a), input<S>(stream, b));
  });
  return y;
}

}  // namespace

Tensor relu(const Stream& stream, const Tensor& x) { return map_one<Relu>(stream, x); }

Tensor relu_backward(const Stream& stream, const Tensor& y, const Tensor& grad) {
  check_alike("relu_backward", y, grad);
  return map_two<ReluGradient>(stream, y, grad);
}

Tensor clamp(const Stream& stream, const Tensor& x, double low, double high) {
  return map_one<Clamp>(stream, x, low, high);
}

Tensor clamp_backward(const Stream& stream, const Tensor& x, const Tensor& grad, double low,
                      double high) {
  check_alike("clamp_backward", x, grad);
  return map_two<ClampGradient>(stream, x, grad, low, high);
}

Tensor affine(const Stream& stream, const Tensor& x, double factor, double offset) {
  return map_one<Affine>(stream, x, factor, offset);
}

void accumulate(const Stream& stream, Tensor& a, const Tensor& b) {
  check_alike("accumulate", a, b);
  visit_stored(a.dtype(), [&]<class S>(S, auto) {
    map(stream, Plus(), a.element_count(), output<S>(stream, a), input<S>(stream, a),
        input<S>(stream, b));
  });
}

}  // namespace troupe::cuda
