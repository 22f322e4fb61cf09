#pragma once
// The affine map of each channel of a batch norm, which forward and backward compute with.

#include <cmath>

#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"
#include "ops/kernels.h"

namespace troupe::cuda {

/// norm(x) = x * slope + offset; forward and backward use the same bits. Aligned for one load.
template <class T>
struct alignas(2 * sizeof(T)) Norm {
  T slope, offset;
  __device__ T operator()(T x) const { return std::fma(x, slope, offset); }
};

/// The parameters and moments of each channel.
template <class T>
struct NormParameters {
  const T *weight, *bias, *mean, *variance;
  double epsilon;

  __device__ double inverse_deviation(std::int64_t c) const {
    return 1.0 / std::sqrt(static_cast<double>(variance[c]) + epsilon);
  }
  __device__ Norm<T> norm(std::int64_t c) const {
    const double slope = weight[c] * inverse_deviation(c);
    return {static_cast<T>(slope), static_cast<T>(bias[c] - mean[c] * slope)};
  }
};

template <class T>
NormParameters<T> norm_parameters(const Stream& stream, const Tensor& weight, const Tensor& bias,
                                  const ChannelMoments& moments, double epsilon) {
  return {input<T>(stream, weight), input<T>(stream, bias), input<T>(stream, moments.mean),
          input<T>(stream, moments.variance), epsilon};
}

/// The norms that ChannelMoments::norm holds.
template <class T>
Norm<T>* norms_in(T* elements) {
  return reinterpret_cast<Norm<T>*>(elements);
}
template <class T>
const Norm<T>* norms_in(const T* elements) {
  return reinterpret_cast<const Norm<T>*>(elements);
}
inline Shape norms_shape(std::int64_t channels) { return {channels, 2}; }

}  // namespace troupe::cuda
