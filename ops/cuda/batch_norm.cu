// Batch norm with what follows it, in one pass over memory forward and two backward. What relu let
// through is computed again from x with the arithmetic of the forward pass or, after a dropout or a
// sum, read from z. After a sum, the first pass backward writes the residual's gradient, which the
// second reads in place of `grad` and z.

#include "ops/cuda/channel_kernels.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_checks.h"
#include "ops/cuda/norm.h"
#include "ops/cuda/numbers.h"
#include "ops/cuda/philox.h"

namespace troupe::cuda {
namespace {

/// Of a form that holds one channel, or one for each place of a pack.
template <class Channel, int held>
const __device__ Channel& of_place(const Channel (&channels)[held], int j) {
  return channels[held == 1 ? 0 : j];
}

template <class T>
__global__ void norm_kernel(NormParameters<T> parameters, std::int64_t count, Norm<T>* norms) {
  for (std::int64_t c = first_index(); c < count; c += grid_threads())
    norms[c] = parameters.norm(c);
}

template <class S>
struct NormaliseArguments {
  const Norm<Computed<S>>* norms;
  const S *x, *residual;  ///< residual: null if there is none
  S* z;
  Channels shape;
  KernelKey random;
  std::uint32_t threshold;  ///< of the dropout; 0: none
  Computed<S> kept;         ///< the factor of what is not dropped
  bool relu, residual_first;
};

/// What follows relu. The kernels differ, so that registers of one form cost the others nothing.
enum class Epilogue { none, dropout, sum };

/// With innermost channels, four pixels of a channel share a block of random numbers if the size of
/// planes is a multiple of four: `at_once` is then 4.
template <class S, int at_once, Epilogue epilogue>
struct Normalise {
  static constexpr int samples = at_once;
  using T = Computed<S>;
  using Channel = Norm<T>;

  NormaliseArguments<S> a;

  __device__ Norm<T> channel(std::int64_t c) const { return a.norms[c]; }

  template <int N, int R, int held>
  __device__ void run(std::int64_t e, std::int64_t sample, std::int64_t c,
                      const Norm<T> (&channels)[held]) const {
    Pack<S, N> in[R], added[R];
#pragma unroll
    for (int r = 0; r < R; ++r) {
      in[r] = load_stored<S, N>(a.x, e + r * a.shape.count);
      if (epilogue == Epilogue::sum)
        added[r] = load_stored<S, N>(a.residual, e + r * a.shape.count);
    }
    const std::uint32_t dropped =
        epilogue == Epilogue::dropout ? dropped_bits<N, R, held>(e, sample, c) : 0;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      Pack<T, N> out;
#pragma unroll
      for (int j = 0; j < N; ++j) {
        T value = of_place(channels, j)(computed(in[r].at[j]));
        const T other = epilogue == Epilogue::sum ? computed(added[r].at[j]) : T(0);
        if (epilogue == Epilogue::sum && a.residual_first) value += other;
        if (a.relu && value < 0) value = 0;
        if (epilogue == Epilogue::dropout)
          value = dropped >> (r * N + j) & 1u ? T(0) : value * a.kept;
        if (epilogue == Epilogue::sum && !a.residual_first) value += other;
        out.at[j] = value;
      }
      if constexpr (R == 1)
        store_pack<S, N>(a.z, e, out);
      else
        store_whole<S, N>(a.z, e + r * a.shape.count, out);
    }
  }

 private:
  /// Bit r * N + j: whether the element in place j of row r is dropped.
  template <int N, int R, int held>
  __device__ std::uint32_t dropped_bits(std::int64_t e, std::int64_t sample, std::int64_t c) const {
    static_assert(N * R <= 32);
    std::uint32_t bits = 0;
    const auto note = [&](std::uint32_t number, int place) {
      bits |= (number < a.threshold ? 1u : 0u) << place;
    };
    if constexpr (held == 1 && N % 4 == 0) {  // of a plane: N divides e
#pragma unroll
      for (int j = 0; j < N; j += 4) {
        const Pack<std::uint32_t, 4> numbers =
            philox_block(a.random, static_cast<std::uint32_t>((e + j) / 4));
#pragma unroll
        for (int i = 0; i < 4; ++i) note(numbers.at[i], j + i);
      }
    } else {
#pragma unroll
      for (int j = 0; j < N; ++j)
        if constexpr (R == 4) {
          const Pack<std::uint32_t, 4> numbers =
              philox_block(a.random, static_cast<std::uint32_t>(logical(sample, c + j) / 4));
#pragma unroll
          for (int r = 0; r < 4; ++r) note(numbers.at[r], r * N + j);
        } else {
          note(philox_number(a.random,
                             held == 1 && a.shape.inner > 1 ? e + j : logical(sample, c + j)),
               j);
        }
    }
    return bits;
  }
  /// The number of an element in (N, C, H, W) order, where channels are innermost.
  __device__ std::int64_t logical(std::int64_t sample, std::int64_t c) const {
    const std::int64_t image = sample / a.shape.plane, pixel = sample % a.shape.plane;
    return (image * a.shape.count + c) * a.shape.plane + pixel;
  }
};

/// What decides whether the epilogue lets a gradient through: nothing, relu's input or its result.
enum class Passes { all, by_norm, by_z };

/// Calls `f` with a constant of it.
template <class F>
void visit_passes(Passes passes, F&& f) {
  if (passes == Passes::by_z) return f(std::integral_constant<Passes, Passes::by_z>{});
  if (passes == Passes::by_norm) return f(std::integral_constant<Passes, Passes::by_norm>{});
  f(std::integral_constant<Passes, Passes::all>{});
}

template <class S, int N>
struct LoadedGradients {
  Pack<S, N> x, grad, z;
};
template <class S, int N, Passes passes>
__device__ LoadedGradients<S, N> load_gradients(const S* x, const S* grad, const S* z,
                                                std::int64_t e) {
  LoadedGradients<S, N> in;
  in.x = load_stored<S, N>(x, e);
  in.grad = load_stored<S, N>(grad, e);
  if (passes == Passes::by_z) in.z = load_stored<S, N>(z, e);
  return in;
}

/// Whether the gradient in place j is let through.
template <Passes passes, class S, int N, class T>
__device__ bool passes_at(const LoadedGradients<S, N>& in, int j, const Norm<T>& norm) {
  if (passes == Passes::by_z) return !(computed(in.z.at[j]) == 0);
  if (passes == Passes::by_norm) return !(norm(computed(in.x.at[j])) <= 0);
  return true;
}

/// Sums of the gradient that is let through, without dropout's scale, and of its product with
/// x - mean.
template <class S, Passes passes>
struct GradientSums {
  static constexpr int ahead = 2;
  using T = Computed<S>;
  const Norm<T>* norms;
  const T* mean;
  const S *x, *grad, *z;
  S* residual;  ///< null unless its gradient is wanted

  template <int N>
  using Loaded = LoadedGradients<S, N>;
  template <int N>
  __device__ Loaded<N> load(std::int64_t e, std::int64_t) const {
    return load_gradients<S, N, passes>(x, grad, z, e);
  }
  template <int N>
  __device__ void store(std::int64_t e, const LoadedGradients<S, N>& in) const {
    if (residual) *reinterpret_cast<Pack<S, N>*>(residual + e) = in.grad;
  }

  struct Part {
    Norm<T> norm;
    T mean, sum, product;

    template <int N>
    __device__ void add(LoadedGradients<S, N>& in, int j) {
      if (!passes_at<passes>(in, j, norm)) in.grad.at[j] = S{};
      const T g = computed(in.grad.at[j]);
      sum += g;
      product = std::fma(g, computed(in.x.at[j]) - mean, product);
    }
    __device__ ChannelSums sums() const {
      return {static_cast<double>(sum), static_cast<double>(product)};
    }
  };
  __device__ Part part(std::int64_t c) const { return {norms[c], mean[c], T(0), T(0)}; }
};

/// dx as a linear function of the gradient and x - mean (S. Ioffe, C. Szegedy, "Batch
/// normalization", ICML 2015, section 3, collected by factors).
template <class T>
struct InputChannel {
  Norm<T> norm;
  T mean, along_grad, along_x, constant;
};

template <class T>
struct WriteGradients {
  NormParameters<T> parameters;
  const Norm<T>* norms;
  double scale;     ///< of the dropout
  double elements;  ///< of a channel
  bool batch_moments;
  T *weight, *bias;
  InputChannel<T>* channels;

  __device__ void finish(std::int64_t c, const ChannelSums& sums) const {
    const double inverse = parameters.inverse_deviation(c);
    const double slope = parameters.weight[c] * inverse;
    const double gradient = sums.first * scale, product = sums.second * scale;
    bias[c] = static_cast<T>(gradient);
    weight[c] = static_cast<T>(product * inverse);
    InputChannel<T> channel{norms[c], parameters.mean[c], static_cast<T>(slope * scale), T(0),
                            T(0)};
    if (batch_moments) {
      channel.along_x = static_cast<T>(-slope * product * inverse * inverse / elements);
      channel.constant = static_cast<T>(-slope * gradient / elements);
    }
    channels[c] = channel;
  }
};

template <class S, Passes passes>
struct InputGradient {
  static constexpr int samples = 1;
  using T = Computed<S>;
  using Channel = InputChannel<T>;

  const InputChannel<T>* channels;
  const S *x, *grad, *z;
  S* dx;

  __device__ Channel channel(std::int64_t c) const { return channels[c]; }

  template <int N, int R, int held>
  __device__ void run(std::int64_t e, std::int64_t, std::int64_t, const Channel (&of)[held]) const {
    const LoadedGradients<S, N> in = load_gradients<S, N, passes>(x, grad, z, e);
    Pack<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const Channel& c = of_place(of, j);
      const T g = passes_at<passes>(in, j, c.norm) ? computed(in.grad.at[j]) : T(0);
      const T centred = std::fma(computed(in.x.at[j]) - c.mean, c.along_x, c.constant);
      out.at[j] = std::fma(g, c.along_grad, centred);
    }
    store_pack<S, N>(dx, e, out);
  }
};

void check_parameters(const char* kernel, std::int64_t channels, const Tensor& x,
                      const Tensor& weight, const Tensor& bias, const ChannelMoments& moments,
                      const NormEpilogue& epilogue) {
  const DType dtype = computed_type(x.dtype());
  check_vector(kernel, "the weight", weight, channels, dtype);
  check_vector(kernel, "the bias", bias, channels, dtype);
  check_vector(kernel, "the mean", moments.mean, channels, dtype);
  check_vector(kernel, "the variance", moments.variance, channels, dtype);
  check_epilogue(kernel, x, epilogue);
}

/// The norm of each channel, as the moments have it or computed from them.
template <class T>
Tensor norms_of(const Stream& stream, const ChannelMoments& moments,
                const NormParameters<T>& parameters, std::int64_t channels) {
  if (moments.norm.defined()) return moments.norm;
  const Tensor made = result(stream, norms_shape(channels), dtype_of<T>);
  Launch(stream, blocks_for(channels), block_threads)(norm_kernel<T>, parameters, channels,
                                                      norms_in(output<T>(stream, made)));
  return made;
}

/// The tensors of a batch_norm_backward.
struct Backward {
  const Tensor &grad, &x, &z;
  const NormEpilogue& epilogue;
  const ChannelMoments& moments;
  Channels channels;
  bool batch_moments;
  bool dropped() const { return epilogue.dropout > 0.0; }
  bool summed() const { return epilogue.relu_of_sum(); }
};

template <class S, class T>
void gradients_of(const Stream& stream, const Backward& b, const NormParameters<T>& parameters,
                  const NormGradients& to) {
  const std::int64_t count = b.channels.count;
  const Tensor of_channels = norms_of(stream, b.moments, parameters, count);
  const Norm<T>* norms = norms_in(input<T>(stream, of_channels));
  const Tensor space = workspace(stream, static_cast<std::size_t>(count) * sizeof(InputChannel<T>));
  auto* inputs = reinterpret_cast<InputChannel<T>*>(space.raw());
  const bool by_z = b.dropped() || b.summed();
  const S *x = input<S>(stream, b.x), *grad = input<S>(stream, b.grad);
  const S* z = by_z ? input<S>(stream, b.z) : nullptr;
  S *dx = output<S>(stream, to.x), *residual = output<S>(stream, to.residual);
  const double scale = b.dropped() ? 1.0 / (1.0 - double{static_cast<T>(b.epilogue.dropout)}) : 1.0;
  const WriteGradients<T> finish{parameters,
                                 norms,
                                 scale,
                                 static_cast<double>(b.channels.samples * b.channels.inner),
                                 b.batch_moments,
                                 output<T>(stream, to.weight),
                                 output<T>(stream, to.bias),
                                 inputs};
  const Passes passes = by_z ? Passes::by_z : b.epilogue.relu ? Passes::by_norm : Passes::all;
  visit_passes(passes, [&]<Passes by>(std::integral_constant<Passes, by>) {
    const GradientSums<S, by> sums{norms, parameters.mean, x, grad, z, residual};
    sum_channels<S>(stream, b.channels, sums, finish, x, grad, z, residual);
    if (!b.summed())
      each_element<S>(stream, b.channels, InputGradient<S, by>{inputs, x, grad, z, dx}, x, grad, z,
                      dx);
  });
  if (b.summed())
    each_element<S>(stream, b.channels,
                    InputGradient<S, Passes::all>{inputs, x, residual, nullptr, dx}, x, residual,
                    dx);
}

}  // namespace

Tensor batch_norm(const Stream& stream, const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const ChannelMoments& moments, double epsilon, const NormEpilogue& epilogue) {
  const Channels channels = channels_of("batch_norm", x);
  check_parameters("batch_norm", channels.count, x, weight, bias, moments, epilogue);
  Tensor z = result_like(stream, x);
  if (channels.elements() == 0) return z;
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    const Tensor norms =
        norms_of(stream, moments, norm_parameters<T>(stream, weight, bias, moments, epsilon),
                 channels.count);
    const S *from = input<S>(stream, x), *residual = input<S>(stream, epilogue.residual);
    S* to = output<S>(stream, z);
    const NormaliseArguments<S> arguments{
        norms_in(input<T>(stream, norms)),
        from,
        residual,
        to,
        channels,
        kernel_key(stream, epilogue.random),
        drop_threshold(epilogue.dropout),
        static_cast<T>(1.0 / (1.0 - double{static_cast<T>(epilogue.dropout)})),
        epilogue.relu,
        epilogue.residual_first};
    const auto normalise = [&]<int at_once, Epilogue form>() {
      each_element<S>(stream, channels, Normalise<S, at_once, form>{arguments}, from, residual, to);
    };
    if (residual)
      normalise.template operator()<1, Epilogue::sum>();
    else if (epilogue.dropout == 0.0)
      normalise.template operator()<1, Epilogue::none>();
    else if (channels.inner == 1 && channels.plane % 4 == 0)
      normalise.template operator()<4, Epilogue::dropout>();
    else
      normalise.template operator()<1, Epilogue::dropout>();
  });
  return z;
}

NormGradients batch_norm_backward(const Stream& stream, const Tensor& grad, const Tensor& x,
                                  const Tensor& z, const Tensor& weight, const Tensor& bias,
                                  const ChannelMoments& moments, double epsilon,
                                  const NormEpilogue& epilogue, bool batch_moments,
                                  Tensor& weight_gradient, Tensor& bias_gradient) {
  const char* kernel = "batch_norm_backward";
  const Channels channels = channels_of(kernel, x);
  check_alike(kernel, x, grad);
  check_parameters(kernel, channels.count, x, weight, bias, moments, epilogue);
  const Backward backward{grad, x, z, epilogue, moments, channels, batch_moments};
  if (backward.dropped() || backward.summed()) check_alike(kernel, x, z);
  NormGradients gradients{result_like(stream, x), weight_gradient, bias_gradient, {}};
  const DType dtype = computed_type(x.dtype());
  for (Tensor* gradient : {&gradients.weight, &gradients.bias}) {
    if (!gradient->defined()) *gradient = result(stream, {channels.count}, dtype);
    check_vector(kernel, "a gradient", *gradient, channels.count, dtype);
  }
  if (backward.summed()) gradients.residual = result_like(stream, x);
  if (channels.count == 0) return gradients;
  visit_stored(x.dtype(), [&]<class S, class T>(S, T) {
    gradients_of<S>(stream, backward, norm_parameters<T>(stream, weight, bias, moments, epsilon),
                    gradients);
  });
  return gradients;
}

}  // namespace troupe::cuda
