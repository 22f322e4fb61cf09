#include <algorithm>

#include "ops/cpu/f64_kernels.h"
#include "ops/cpu/f64_products.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/pieces.h"
#include "ops/cpu/scratch.h"

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
    auto* to = y.data<double>();
    const double* bias = bias_.defined() ? bias_.data<double>() : nullptr;
    for (std::int64_t n = 0; n < rows && bias; ++n) std::copy_n(bias, out_, to + n * out_);
    multiply_parts(stream, {rows, in_, out_}, {x.data<double>(), in_},
                   {weight_.data<double>(), in_, true}, bias != nullptr, to);
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape&, Layout) override {
    const std::int64_t rows = grad.dim(0);
    Tensor x_grad = Tensor::empty(Shape{rows, in_}, DType::f64, stream.device);
    multiply_parts(stream, {rows, out_, in_}, {grad.data<double>(), out_},
                   {weight_.data<double>(), in_}, false, x_grad.data<double>());
    return x_grad;
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    const double* slopes = grad.data<double>();
    const std::int64_t rows = x.dim(0);
    multiply_parts(stream, {out_, rows, in_}, {slopes, out_, true}, {x.data<double>(), in_}, false,
                   weight_grad.data<double>());
    if (!bias_grad.defined()) return;
    auto* sums = bias_grad.data<double>();  // one of `in` + 1 columns: not worth other threads
    std::fill_n(sums, out_, 0.0);
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t o = 0; o < out_; ++o) sums[o] += slopes[n * out_ + o];
  }

 private:
  /// multiply() with the rows or, if there are more of them, the columns of the result divided
  /// among the threads.
  static void multiply_parts(const Stream& stream, const ProductSizes& sizes,
                             const MatrixView<double>& a, const MatrixView<double>& b, bool adds,
                             double* y) {
    constexpr std::int64_t least = 48;  // rows or columns that are worth another thread
    const bool by_columns = sizes.columns > sizes.rows;
    const std::int64_t count = by_columns ? sizes.columns : sizes.rows;
    const std::int64_t parts =
        std::clamp<std::int64_t>(count / least, 1, std::max(1, stream.threads));
    const auto sizes_of = [&](std::int64_t part_count) {
      return by_columns ? ProductSizes{sizes.rows, sizes.depth, part_count}
                        : ProductSizes{part_count, sizes.depth, sizes.columns};
    };
    const std::size_t bytes =
        aligned_bytes(product_bytes_f64(sizes_of((count + parts - 1) / parts), b.transposed));
    const Scratch scratch(static_cast<std::size_t>(parts) * bytes);
    parallel(stream, parts, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part) {
        const std::int64_t begin = count * part / parts, end = count * (part + 1) / parts;
        MatrixView<double> left = a, right = b;
        double* to = y;
        if (by_columns) {
          right.data += b.transposed ? begin * b.stride : begin;
          to += begin;
        } else {
          left.data += a.transposed ? begin : begin * a.stride;
          to += begin * sizes.columns;
        }
        multiply(sizes_of(end - begin), 1.0, left, right, adds, to, sizes.columns,
                 static_cast<std::byte*>(scratch.data()) + static_cast<std::size_t>(part) * bytes);
      }
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
