#include <algorithm>
#include <vector>

#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"

namespace troupe::reference {
namespace {

// Along one axis: output o and kernel element k meet input o * stride - padding + k * dilation.
struct Axis {
  std::int64_t in = 0, out = 0, kernel = 0, stride = 1, padding = 0, dilation = 1;

  std::int64_t input(std::int64_t o, std::int64_t k) const {
    return o * stride - padding + k * dilation;
  }
  bool holds(std::int64_t i) const { return i >= 0 && i < in; }
  // The outputs [first(k), last(k)) whose input lies inside.
  std::int64_t first(std::int64_t k) const {
    const std::int64_t missing = padding - k * dilation;
    return missing > 0 ? (missing + stride - 1) / stride : 0;
  }
  std::int64_t last(std::int64_t k) const {
    const std::int64_t room = in - 1 + padding - k * dilation;
    return room < 0 ? 0 : std::min(out, room / stride + 1);
  }
};

class Convolution final : public LayerKernel {
 public:
  explicit Convolution(const ConvolutionOptions& options) : o_(options) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    if (weight_.defined() && version == version_) return;
    weight_ = weight;
    bias_ = bias;
    version_ = version;
  }
  Tensor forward(const Stream&, const Tensor& x) override;
  Tensor input_gradient(const Stream&, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override;
  void weight_gradient(const Stream&, const Tensor& x, const Tensor& grad, Tensor& weight_grad,
                       Tensor& bias_grad) override;

 private:
  Axis vertical(const Shape& x) const {
    const std::int64_t out = (x[2] + 2 * o_.padding_h - reach_h(o_)) / o_.stride_h + 1;
    return {x[2], out, o_.kernel_h, o_.stride_h, o_.padding_h, o_.dilation_h};
  }
  Axis horizontal(const Shape& x) const {
    const std::int64_t out = (x[3] + 2 * o_.padding_w - reach_w(o_)) / o_.stride_w + 1;
    return {x[3], out, o_.kernel_w, o_.stride_w, o_.padding_w, o_.dilation_w};
  }
  std::int64_t group_in() const { return o_.in_channels / o_.groups; }
  std::int64_t group_out() const { return o_.out_channels / o_.groups; }
  // The first input channel of the group of an output channel.
  std::int64_t first_input(std::int64_t o) const { return o / group_out() * group_in(); }
  // Row kh of the kernel between output channel o and input channel i of its group.
  const double* kernel_row(std::int64_t o, std::int64_t i, std::int64_t kh) const {
    return weight_.data<double>() + ((o * group_in() + i) * o_.kernel_h + kh) * o_.kernel_w;
  }

  ConvolutionOptions o_;
  Tensor weight_, bias_;
  std::uint64_t version_ = 0;
};

// Row y of channel c of image n.
double* row(const Tensor& images, std::int64_t n, std::int64_t c, std::int64_t y) {
  const Shape& shape = images.shape();
  return images.data<double>() + ((n * shape[1] + c) * shape[2] + y) * shape[3];
}

Tensor Convolution::forward(const Stream&, const Tensor& given) {
  const Tensor x = row_major(given);
  const Axis v = vertical(x.shape()), h = horizontal(x.shape());
  Tensor y = Tensor::empty(Shape{x.dim(0), o_.out_channels, v.out, h.out}, DType::f64, x.device());
  std::vector<double> sums(static_cast<std::size_t>(h.out));
  for (std::int64_t n = 0; n < x.dim(0); ++n)
    for (std::int64_t o = 0; o < o_.out_channels; ++o)
      for (std::int64_t oh = 0; oh < v.out; ++oh) {
        std::fill(sums.begin(), sums.end(), bias_.defined() ? bias_.data<double>()[o] : 0.0);
        for (std::int64_t i = 0; i < group_in(); ++i)
          for (std::int64_t kh = 0; kh < v.kernel; ++kh) {
            if (!v.holds(v.input(oh, kh))) continue;
            const double* pixels = row(x, n, first_input(o) + i, v.input(oh, kh));
            for (std::int64_t kw = 0; kw < h.kernel; ++kw) {
              const double w = kernel_row(o, i, kh)[kw];
              for (std::int64_t ow = h.first(kw), end = h.last(kw); ow < end; ++ow)
                sums[static_cast<std::size_t>(ow)] += w * pixels[h.input(ow, kw)];
            }
          }
        std::copy(sums.begin(), sums.end(), row(y, n, o, oh));
      }
  return y;
}

Tensor Convolution::input_gradient(const Stream&, const Tensor& given, const Shape& x_shape,
                                   Layout x_layout) {
  const Tensor grad = row_major(given);
  const Axis v = vertical(x_shape), h = horizontal(x_shape);
  Tensor x_grad = Tensor::empty(x_shape, DType::f64, grad.device());
  std::vector<double> sums(static_cast<std::size_t>(h.in));
  for (std::int64_t n = 0; n < x_shape[0]; ++n)
    for (std::int64_t i = 0; i < o_.in_channels; ++i)
      for (std::int64_t ih = 0; ih < v.in; ++ih) {
        std::fill(sums.begin(), sums.end(), 0.0);
        const std::int64_t group = i / group_in(), first = group * group_out();
        for (std::int64_t o = first; o < first + group_out(); ++o)
          for (std::int64_t kh = 0; kh < v.kernel; ++kh) {
            const std::int64_t strided = ih + v.padding - kh * v.dilation;  // oh * stride
            if (strided < 0 || strided % v.stride != 0 || strided / v.stride >= v.out) continue;
            const double* slopes = row(grad, n, o, strided / v.stride);
            for (std::int64_t kw = 0; kw < h.kernel; ++kw) {
              const double w = kernel_row(o, i - group * group_in(), kh)[kw];
              for (std::int64_t ow = h.first(kw), end = h.last(kw); ow < end; ++ow)
                sums[static_cast<std::size_t>(h.input(ow, kw))] += w * slopes[ow];
            }
          }
        std::copy(sums.begin(), sums.end(), row(x_grad, n, i, ih));
      }
  return in_layout(x_grad, x_layout);
}

void Convolution::weight_gradient(const Stream&, const Tensor& given_x, const Tensor& given_grad,
                                  Tensor& weight_grad, Tensor& bias_grad) {
  const Tensor x = row_major(given_x), grad = row_major(given_grad);
  const Axis v = vertical(x.shape()), h = horizontal(x.shape());
  auto* out = weight_grad.data<double>();
  for (std::int64_t o = 0; o < o_.out_channels; ++o)
    for (std::int64_t i = 0; i < group_in(); ++i)
      for (std::int64_t kh = 0; kh < v.kernel; ++kh)
        for (std::int64_t kw = 0; kw < h.kernel; ++kw) {
          double sum = 0;
          for (std::int64_t n = 0; n < x.dim(0); ++n)
            for (std::int64_t oh = v.first(kh); oh < v.last(kh); ++oh) {
              const double* pixels = row(x, n, first_input(o) + i, v.input(oh, kh));
              const double* slopes = row(grad, n, o, oh);
              for (std::int64_t ow = h.first(kw), end = h.last(kw); ow < end; ++ow)
                sum += slopes[ow] * pixels[h.input(ow, kw)];
            }
          *out++ = sum;
        }
  if (!bias_grad.defined()) return;
  for (std::int64_t o = 0; o < o_.out_channels; ++o) {
    double sum = 0;
    for (std::int64_t n = 0; n < grad.dim(0); ++n) {
      const double* plane = row(grad, n, o, 0);
      for (std::int64_t e = 0; e < v.out * h.out; ++e) sum += plane[e];
    }
    bias_grad.data<double>()[o] = sum;
  }
}

}  // namespace

std::unique_ptr<LayerKernel> convolution(const ConvolutionOptions& options) {
  return std::make_unique<Convolution>(options);
}

}  // namespace troupe::reference
