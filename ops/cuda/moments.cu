#include "ops/cuda/channel_kernels.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_checks.h"
#include "ops/cuda/layer_weights.h"
#include "ops/cuda/norm.h"
#include "ops/cuda/numbers.h"

namespace troupe::cuda {
namespace {

/// A value of a channel that its sums are about, so that a large mean costs no accuracy.
template <class S>
struct Centre {
  const S* x;
  std::int64_t inner;
  bool empty;

  __device__ Computed<S> operator()(std::int64_t c) const {
    return empty ? Computed<S>(0) : computed(x[c * inner]);
  }
};

/// Sums of x - centre and of its square. A thread first sums x - (its first value) in T, since that
/// value is near its others, and then moves its sums to the common centre in f64.
template <class S>
struct MomentSums {
  static constexpr int ahead = 4;
  using T = Computed<S>;
  const S* x;
  Centre<S> centre;

  template <int N>
  using Loaded = Pack<S, N>;
  template <int N>
  __device__ Loaded<N> load(std::int64_t e, std::int64_t) const {
    return load_stored<S, N>(x, e);
  }
  template <int N>
  __device__ void store(std::int64_t, const Pack<S, N>&) const {}

  struct Part {
    T centre, shift, sum, squares;
    int count;

    template <int N>
    __device__ void add(const Pack<S, N>& values, int j) {
      const T value = computed(values.at[j]);
      if (count == 0) shift = value;
      ++count;
      const T distance = value - shift;
      sum += distance;
      squares = std::fma(distance, distance, squares);
    }
    __device__ ChannelSums sums() const {
      if (count == 0) return {};
      const double moved = static_cast<double>(shift) - centre, n = count;
      return {sum + n * moved, squares + moved * (2.0 * sum + n * moved)};
    }
  };
  __device__ Part part(std::int64_t c) const { return {centre(c), T(0), T(0), T(0), 0}; }
};

template <class S>
struct WriteMoments {
  using T = Computed<S>;
  Centre<S> centre;
  double elements;  ///< of a channel
  T *mean, *variance;
  T *running_mean, *running_variance;  ///< null: not wanted
  NormParameters<T> parameters;        ///< with these moments
  Norm<T>* norms;                      ///< null: not wanted

  __device__ void finish(std::int64_t c, const ChannelSums& sums) const {
    const double moved = sums.first / elements;
    const double value = sums.second / elements - moved * moved;
    mean[c] = static_cast<T>(centre(c) + moved);
    variance[c] = static_cast<T>(value < 0 ? 0.0 : value);
    if (running_mean) running_mean[c] = mean[c];
    if (running_variance)
      running_variance[c] = static_cast<T>(variance[c] * (elements / (elements - 1)));
    if (norms) norms[c] = parameters.norm(c);
  }
};

template <class S>
struct ElementSums {
  static constexpr int ahead = 4;
  using T = Computed<S>;
  const S* x;

  template <int N>
  using Loaded = Pack<S, N>;
  template <int N>
  __device__ Loaded<N> load(std::int64_t e, std::int64_t) const {
    return load_stored<S, N>(x, e);
  }
  template <int N>
  __device__ void store(std::int64_t, const Pack<S, N>&) const {}

  struct Part {
    T sum;

    template <int N>
    __device__ void add(const Pack<S, N>& values, int j) {
      sum += computed(values.at[j]);
    }
    __device__ ChannelSums sums() const { return {static_cast<double>(sum), 0.0}; }
  };
  __device__ Part part(std::int64_t) const { return {T(0)}; }
};

template <class T>
struct WriteSums {
  T* to;
  __device__ void finish(std::int64_t c, const ChannelSums& sums) const {
    to[c] = static_cast<T>(sums.first);
  }
};

}  // namespace

void channel_sums(const Stream& stream, const Tensor& x, Tensor& sums) {
  const Channels channels = channels_of("channel_sums", x);
  check_vector("channel_sums", "the result", sums, channels.count, computed_type(x.dtype()));
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    const S* from = input<S>(stream, x);
    sum_channels<S>(stream, channels, ElementSums<S>{from}, WriteSums<T>{output<T>(stream, sums)},
                    from);
  });
}

ChannelMoments channel_moments(const Stream& stream, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, double epsilon, Tensor& mean,
                               Tensor& unbiased_variance) {
  const char* kernel = "channel_moments";
  const Channels channels = channels_of(kernel, x);
  const DType dtype = computed_type(x.dtype());
  ChannelMoments moments{result(stream, {channels.count}, dtype),
                         result(stream, {channels.count}, dtype)};
  for (const Tensor* place : {&mean, &unbiased_variance})
    if (place->defined()) check_vector(kernel, "a statistic", *place, channels.count, dtype);
  if (weight.defined()) {
    check_vector(kernel, "the weight", weight, channels.count, dtype);
    check_vector(kernel, "the bias", bias, channels.count, dtype);
    moments.norm = result(stream, norms_shape(channels.count), dtype);
  }
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    const S* from = input<S>(stream, x);
    const Centre<S> centre{from, channels.inner, channels.elements() == 0};
    const auto elements = static_cast<double>(channels.samples * channels.inner);
    const NormParameters<T> parameters = norm_parameters<T>(stream, weight, bias, moments, epsilon);
    sum_channels<S>(stream, channels, MomentSums<S>{from, centre},
                    WriteMoments<S>{centre, elements, output<T>(stream, moments.mean),
                                    output<T>(stream, moments.variance), output<T>(stream, mean),
                                    output<T>(stream, unbiased_variance), parameters,
                                    norms_in(output<T>(stream, moments.norm))},
                    from);
  });
  return moments;
}

}  // namespace troupe::cuda
