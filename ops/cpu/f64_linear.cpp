#include <algorithm>

#include "ops/cpu/f64_kernels.h"
#include "ops/cpu/f64_products.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/parallel.h"

namespace troupe::cpu {
namespace {

class Linear final : public LayerKernel {
 public:
  explicit Linear(const LinearOptions& options)
      : in_(options.in_features), out_(options.out_features) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t) override {
    weight_ = weight;
    bias_ = bias;
  }

  Tensor forward(const Stream& stream, const Tensor& x) override {
    const std::int64_t rows = x.dim(0);
    Tensor y = Tensor::empty(Shape{rows, out_}, DType::f64, stream.device);
    double* to = y.data<double>();
    const double* bias = bias_.defined() ? bias_.data<double>() : nullptr;
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t o = 0; o < out_; ++o) to[n * out_ + o] = bias ? bias[o] : 0.0;
    multiply_rows(stream, {rows, in_, out_}, {x.data<double>(), in_},
                  {weight_.data<double>(), in_, true}, true, to);
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape&, Layout) override {
    const std::int64_t rows = grad.dim(0);
    Tensor x_grad = Tensor::empty(Shape{rows, in_}, DType::f64, stream.device);
    multiply_rows(stream, {rows, out_, in_}, {grad.data<double>(), out_},
                  {weight_.data<double>(), in_}, false, x_grad.data<double>());
    return x_grad;
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    const double* slopes = grad.data<double>();
    const std::int64_t rows = x.dim(0);
    multiply_rows(stream, {out_, rows, in_}, {slopes, out_, true}, {x.data<double>(), in_}, false,
                  weight_grad.data<double>());
    if (!bias_grad.defined()) return;
    double* sums = bias_grad.data<double>();
    std::fill_n(sums, out_, 0.0);
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t o = 0; o < out_; ++o) sums[o] += slopes[n * out_ + o];
  }

 private:
  /// multiply() with the rows of the result divided among the threads.
  static void multiply_rows(const Stream& stream, const ProductSizes& sizes,
                            const MatrixView<double>& a, const MatrixView<double>& b, bool adds,
                            double* y) {
    constexpr std::int64_t block = 64;  // a multiple of PackedRows::panel
    parallel(stream, (sizes.rows + block - 1) / block, 1,
             [&](std::int64_t first, std::int64_t last) {
               const std::int64_t begin = first * block, end = std::min(sizes.rows, last * block);
               MatrixView<double> rows = a;
               rows.data += a.transposed ? begin : begin * a.stride;
               multiply({end - begin, sizes.depth, sizes.columns}, 1.0, rows, b, adds,
                        y + begin * sizes.columns, sizes.columns);
             });
  }

  std::int64_t in_, out_;
  Tensor weight_, bias_;
};

}  // namespace

std::unique_ptr<LayerKernel> linear_f64(const LinearOptions& options) {
  return std::make_unique<Linear>(options);
}

}  // namespace troupe::cpu
