#include "ops/reference/kernels.h"

namespace troupe::reference {
namespace {

class Linear final : public LayerKernel {
 public:
  explicit Linear(const LinearOptions& options)
      : in_(options.in_features), out_(options.out_features) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    if (weight_.defined() && version == version_) return;
    weight_ = weight;
    bias_ = bias;
    version_ = version;
  }

  Tensor forward(const Stream&, const Tensor& x) override {
    Tensor y = Tensor::empty(Shape{x.dim(0), out_}, DType::f64, x.device());
    const double *from = x.data<double>(), *w = weight_.data<double>();
    for (std::int64_t n = 0; n < x.dim(0); ++n)
      for (std::int64_t o = 0; o < out_; ++o) {
        double sum = bias_.defined() ? bias_.data<double>()[o] : 0.0;
        for (std::int64_t i = 0; i < in_; ++i) sum += from[n * in_ + i] * w[o * in_ + i];
        y.data<double>()[n * out_ + o] = sum;
      }
    return y;
  }

  Tensor input_gradient(const Stream&, const Tensor& grad, const Shape&, Layout) override {
    Tensor x_grad = Tensor::empty(Shape{grad.dim(0), in_}, DType::f64, grad.device());
    const double *slopes = grad.data<double>(), *w = weight_.data<double>();
    for (std::int64_t n = 0; n < grad.dim(0); ++n)
      for (std::int64_t i = 0; i < in_; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < out_; ++o) sum += slopes[n * out_ + o] * w[o * in_ + i];
        x_grad.data<double>()[n * in_ + i] = sum;
      }
    return x_grad;
  }

  void weight_gradient(const Stream&, const Tensor& x, const Tensor& grad, Tensor& weight_grad,
                       Tensor& bias_grad) override {
    const double *from = x.data<double>(), *slopes = grad.data<double>();
    for (std::int64_t o = 0; o < out_; ++o) {
      for (std::int64_t i = 0; i < in_; ++i) {
        double sum = 0;
        for (std::int64_t n = 0; n < x.dim(0); ++n) sum += slopes[n * out_ + o] * from[n * in_ + i];
        weight_grad.data<double>()[o * in_ + i] = sum;
      }
      if (!bias_grad.defined()) continue;
      double sum = 0;
      for (std::int64_t n = 0; n < x.dim(0); ++n) sum += slopes[n * out_ + o];
      bias_grad.data<double>()[o] = sum;
    }
  }

 private:
  std::int64_t in_, out_;
  Tensor weight_, bias_;
  std::uint64_t version_ = 0;
};

}  // namespace

std::unique_ptr<LayerKernel> linear(const LinearOptions& options) {
  return std::make_unique<Linear>(options);
}

}  // namespace troupe::reference
