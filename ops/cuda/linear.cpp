#include "ops/cuda/convert.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_weights.h"
#include "ops/cuda/product.h"
#include "ops/gpu_factors.h"

namespace troupe::cuda {
namespace {

class Linear final : public LayerKernel {
 public:
  explicit Linear(const LinearOptions& options)
      : in_(options.in_features), out_(options.out_features) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    weights_.use(weight, bias, version);
  }
  Tensor forward(const Stream& stream, const Tensor& x) override {
    const DType type = factor_type(stream, x.dtype());
    Tensor y = result(stream, Shape{x.dim(0), out_}, type);
    multiply(stream, {.rows = x.dim(0), .depth = in_, .columns = out_, .transposed_b = true},
             factor(stream, x), 0, weight(stream), 0, weights_.bias_in(stream, type), y, 0);
    return y;
  }
  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout) override {
    Tensor x_grad = result(stream, x_shape, factor_type(stream, grad.dtype()));
    multiply(stream, {.rows = grad.dim(0), .depth = out_, .columns = in_}, factor(stream, grad), 0,
             weight(stream), 0, {}, x_grad, 0);
    return x_grad;
  }
  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    multiply(stream, {.rows = out_, .depth = x.dim(0), .columns = in_, .transposed_a = true},
             factor(stream, grad), 0, factor(stream, x), 0, {}, weight_grad, 0);
    if (bias_grad.defined()) channel_sums(stream, grad, bias_grad);
  }

 private:
  static Tensor factor(const Stream& stream, const Tensor& tensor) {
    return in_form(stream, tensor, tensor.layout(), factor_type(stream, tensor.dtype()));
  }
  const Tensor& weight(const Stream& stream) {
    return weights_.weight_in(stream, weights_.weight.layout(),
                              factor_type(stream, weights_.weight.dtype()));
  }

  std::int64_t in_, out_;
  LayerWeights weights_;
};

}  // namespace

std::unique_ptr<LayerKernel> linear(const LinearOptions& options) {
  return std::make_unique<Linear>(options);
}

}  // namespace troupe::cuda
