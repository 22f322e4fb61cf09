#include "ops/cuda/direct_convolution.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/launch.h"
#include "ops/cuda/numbers.h"
#include "ops/cuda/reduce.h"

namespace troupe::cuda {
namespace {

// Images in memory: sizes, and the distances between neighbours along each axis.
struct Images {
  std::int64_t n, c, h, w;
  std::int64_t n_stride, c_stride, h_stride, w_stride;

  explicit Images(const Tensor& t) : n(t.dim(0)), c(t.dim(1)), h(t.dim(2)), w(t.dim(3)) {
    const bool last = t.layout() == Layout::nhwc;
    n_stride = c * h * w;
    c_stride = last ? 1 : h * w;
    h_stride = last ? w * c : w;
    w_stride = last ? c : 1;
  }
  __host__ __device__ std::int64_t count() const { return n * c * h * w; }
  __device__ std::int64_t place(std::int64_t in, std::int64_t ic, std::int64_t ih,
                                std::int64_t iw) const {
    return in * n_stride + ic * c_stride + ih * h_stride + iw * w_stride;
  }
};

// An element of images by its number in memory order, so that neighbouring threads meet neighbours.
struct Element {
  std::int64_t n, c, h, w;

  __device__ Element(const Images& of, std::int64_t e) {
    if (of.c_stride == 1) {
      c = e % of.c, e /= of.c;
      w = e % of.w, e /= of.w;
      h = e % of.h, n = e / of.h;
    } else {
      w = e % of.w, e /= of.w;
      h = e % of.h, e /= of.h;
      c = e % of.c, n = e / of.c;
    }
  }
};

struct Weights {
  std::int64_t group_in, group_out, kernel_h, kernel_w;
  std::int64_t stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w;

  explicit Weights(const ConvolutionOptions& o)
      : group_in(o.in_channels / o.groups),
        group_out(o.out_channels / o.groups),
        kernel_h(o.kernel_h),
        kernel_w(o.kernel_w),
        stride_h(o.stride_h),
        stride_w(o.stride_w),
        padding_h(o.padding_h),
        padding_w(o.padding_w),
        dilation_h(o.dilation_h),
        dilation_w(o.dilation_w) {}
  // Between output channel o and input channel i of its group.
  __device__ std::int64_t place(std::int64_t o, std::int64_t i, std::int64_t kh,
                                std::int64_t kw) const {
    return ((o * group_in + i) * kernel_h + kh) * kernel_w + kw;
  }
};

// F: the type of the factors, whose products are summed in T.
template <class F, class T>
__global__ void forward_kernel(Weights p, Images xs, Images ys, const F* x, const F* w,
                               const T* bias, T* y) {
  for (std::int64_t e = first_index(); e < ys.count(); e += grid_threads()) {
    const Element at(ys, e);
    const std::int64_t first = at.c / p.group_out * p.group_in;
    T sum = bias ? bias[at.c] : T(0);
    for (std::int64_t kh = 0; kh < p.kernel_h; ++kh) {
      const std::int64_t ih = at.h * p.stride_h - p.padding_h + kh * p.dilation_h;
      if (ih < 0 || ih >= xs.h) continue;
      for (std::int64_t kw = 0; kw < p.kernel_w; ++kw) {
        const std::int64_t iw = at.w * p.stride_w - p.padding_w + kw * p.dilation_w;
        if (iw < 0 || iw >= xs.w) continue;
        for (std::int64_t i = 0; i < p.group_in; ++i)
          sum = std::fma(converted<T>(x[xs.place(at.n, first + i, ih, iw)]),
                         converted<T>(w[p.place(at.c, i, kh, kw)]), sum);
      }
    }
    y[e] = sum;
  }
}

template <class F, class T>
__global__ void input_gradient_kernel(Weights p, Images ys, Images xs, const F* grad, const F* w,
                                      T* x_grad) {
  for (std::int64_t e = first_index(); e < xs.count(); e += grid_threads()) {
    const Element at(xs, e);
    const std::int64_t group = at.c / p.group_in, i = at.c % p.group_in;
    T sum = 0;
    for (std::int64_t kh = 0; kh < p.kernel_h; ++kh) {
      const std::int64_t sh = at.h + p.padding_h - kh * p.dilation_h;  // output row * stride
      if (sh < 0 || sh % p.stride_h != 0 || sh / p.stride_h >= ys.h) continue;
      for (std::int64_t kw = 0; kw < p.kernel_w; ++kw) {
        const std::int64_t sw = at.w + p.padding_w - kw * p.dilation_w;
        if (sw < 0 || sw % p.stride_w != 0 || sw / p.stride_w >= ys.w) continue;
        for (std::int64_t o = group * p.group_out; o < (group + 1) * p.group_out; ++o)
          sum = std::fma(converted<T>(grad[ys.place(at.n, o, sh / p.stride_h, sw / p.stride_w)]),
                         converted<T>(w[p.place(o, i, kh, kw)]), sum);
      }
    }
    x_grad[e] = sum;
  }
}

// A weight and the images that its gradient sums over.
struct WeightElement {
  std::int64_t o, c, kh, kw;

  __device__ WeightElement(const Weights& p, std::int64_t e) {
    kw = e % p.kernel_w, e /= p.kernel_w;
    kh = e % p.kernel_h, e /= p.kernel_h;
    o = e / p.group_in;
    c = o / p.group_out * p.group_in + e % p.group_in;
  }
};

// What output pixel s of all images adds to the gradient of a weight.
template <class T, class F>
__device__ T weight_term(const Weights& p, const Images& xs, const Images& ys, const F* x,
                         const F* grad, const WeightElement& at, std::int64_t s) {
  const std::int64_t ow = s % ys.w, oh = s / ys.w % ys.h, n = s / (ys.w * ys.h);
  const std::int64_t ih = oh * p.stride_h - p.padding_h + at.kh * p.dilation_h;
  const std::int64_t iw = ow * p.stride_w - p.padding_w + at.kw * p.dilation_w;
  if (ih < 0 || ih >= xs.h || iw < 0 || iw >= xs.w) return T(0);
  return converted<T>(x[xs.place(n, at.c, ih, iw)]) * converted<T>(grad[ys.place(n, at.o, oh, ow)]);
}

// A thread a weight, for short sums.
template <class F, class T>
__global__ void short_weight_gradient_kernel(Weights p, Images xs, Images ys, const F* x,
                                             const F* grad, T* w_grad, std::int64_t weights) {
  for (std::int64_t e = first_index(); e < weights; e += grid_threads()) {
    const WeightElement at(p, e);
    T sum = 0;
    for (std::int64_t s = 0; s < ys.n * ys.h * ys.w; ++s)
      sum += weight_term<T>(p, xs, ys, x, grad, at, s);
    w_grad[e] = sum;
  }
}

// A block a weight: its threads share the output pixels of all images.
template <class F, class T>
__global__ void weight_gradient_kernel(Weights p, Images xs, Images ys, const F* x, const F* grad,
                                       T* w_grad, std::int64_t weights) {
  for (std::int64_t e = blockIdx.x; e < weights; e += gridDim.x) {
    const WeightElement at(p, e);
    T sum = 0;
    for (std::int64_t s = threadIdx.x; s < ys.n * ys.h * ys.w; s += blockDim.x)
      sum += weight_term<T>(p, xs, ys, x, grad, at, s);
    sum = reduce_block(sum, T(0), Plus());
    if (threadIdx.x == 0) w_grad[e] = sum;
  }
}

}  // namespace

void direct_forward(const Stream& stream, const ConvolutionOptions& options, const Tensor& x,
                    const Tensor& weight, const Tensor& bias, const Tensor& y) {
  if (y.element_count() == 0) return;
  visit_stored(x.dtype(), [&]<class F, class T>(F, T) {
    Launch(stream, blocks_for(y.element_count()), block_threads)(
        forward_kernel<F, T>, Weights(options), Images(x), Images(y), input<F>(stream, x),
        input<F>(stream, weight), input<T>(stream, bias), output<T>(stream, y));
  });
}

void direct_input_gradient(const Stream& stream, const ConvolutionOptions& options,
                           const Tensor& grad, const Tensor& weight, const Tensor& x_grad) {
  if (x_grad.element_count() == 0) return;
  visit_stored(grad.dtype(), [&]<class F, class T>(F, T) {
    Launch(stream, blocks_for(x_grad.element_count()), block_threads)(
        input_gradient_kernel<F, T>, Weights(options), Images(grad), Images(x_grad),
        input<F>(stream, grad), input<F>(stream, weight), output<T>(stream, x_grad));
  });
}

void direct_weight_gradient(const Stream& stream, const ConvolutionOptions& options,
                            const Tensor& x, const Tensor& grad, const Tensor& weight_grad) {
  const std::int64_t weights = weight_grad.element_count();
  if (weights == 0) return;
  constexpr std::int64_t short_sum = 256;
  const bool is_short = grad.element_count() / options.out_channels <= short_sum;
  visit_stored(x.dtype(), [&]<class F, class T>(F, T) {
    const dim3 blocks = is_short ? blocks_for(weights) : blocks_for(weights, 1);
    Launch(stream, blocks, block_threads)(
        is_short ? short_weight_gradient_kernel<F, T> : weight_gradient_kernel<F, T>,
        Weights(options), Images(x), Images(grad), input<F>(stream, x), input<F>(stream, grad),
        output<T>(stream, weight_grad), weights);
  });
}

}  // namespace troupe::cuda
