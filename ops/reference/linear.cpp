#include "ops/reference/families.h"

namespace troupe::reference {
namespace {

template <class T>
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
    Tensor y = Tensor::empty(Shape{x.dim(0), out_}, dtype_of<T>, x.device());
    const T *from = x.data<T>(), *w = weight_.data<T>();
    for (std::int64_t n = 0; n < x.dim(0); ++n)
      for (std::int64_t o = 0; o < out_; ++o) {
        double sum = bias_.defined() ? bias_.data<T>()[o] : 0.0;
        for (std::int64_t i = 0; i < in_; ++i)
          sum += static_cast<double>(from[n * in_ + i]) * w[o * in_ + i];
        y.data<T>()[n * out_ + o] = static_cast<T>(sum);
      }
    return y;
  }

  Tensor input_gradient(const Stream&, const Tensor& grad, const Shape&, Layout) override {
    Tensor x_grad = Tensor::empty(Shape{grad.dim(0), in_}, dtype_of<T>, grad.device());
    const T *slopes = grad.data<T>(), *w = weight_.data<T>();
    for (std::int64_t n = 0; n < grad.dim(0); ++n)
      for (std::int64_t i = 0; i < in_; ++i) {
        double sum = 0;
        for (std::int64_t o = 0; o < out_; ++o)
          sum += static_cast<double>(slopes[n * out_ + o]) * w[o * in_ + i];
        x_grad.data<T>()[n * in_ + i] = static_cast<T>(sum);
      }
    return x_grad;
  }

  void weight_gradient(const Stream&, const Tensor& x, const Tensor& grad, Tensor& weight_grad,
                       Tensor& bias_grad) override {
    const T *from = x.data<T>(), *slopes = grad.data<T>();
    for (std::int64_t o = 0; o < out_; ++o) {
      for (std::int64_t i = 0; i < in_; ++i) {
        double sum = 0;
        for (std::int64_t n = 0; n < x.dim(0); ++n)
          sum += static_cast<double>(slopes[n * out_ + o]) * from[n * in_ + i];
        weight_grad.data<T>()[o * in_ + i] = static_cast<T>(sum);
      }
      if (!bias_grad.defined()) continue;
      double sum = 0;
      for (std::int64_t n = 0; n < x.dim(0); ++n) sum += slopes[n * out_ + o];
      bias_grad.data<T>()[o] = static_cast<T>(sum);
    }
  }

 private:
  std::int64_t in_, out_;
  Tensor weight_, bias_;
  std::uint64_t version_ = 0;
};

template <class T>
std::unique_ptr<LayerKernel> linear(const LinearOptions& options) {
  return std::make_unique<Linear<T>>(options);
}

}  // namespace

template <class T>
void fill_linear(KernelTable& table) {
  table.linear = linear<T>;
}

template void fill_linear<float>(KernelTable&);
template void fill_linear<double>(KernelTable&);

}  // namespace troupe::reference
