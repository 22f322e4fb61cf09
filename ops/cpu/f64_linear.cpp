#include <algorithm>
#include <span>
#include <vector>

#include "ops/cpu/f64_layers.h"
#include "ops/cpu/f64_products.h"
#include "ops/cpu/parallel.h"

namespace troupe::cpu {
namespace {

/// 0, stride, 2 * stride, …
std::vector<std::int64_t> multiples(std::int64_t count, std::int64_t stride) {
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(i * stride);
  return result;
}

// A range of a parallel loop is a multiple of this, so that tiles stay whole.
constexpr std::int64_t block = 48;

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
    const DotRows from{x.data<double>()}, weights{weight_.data<double>()};
    const double* bias = bias_.defined() ? bias_.data<double>() : nullptr;
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t o = 0; o < out_; ++o) to[n * out_ + o] = bias ? bias[o] : 0.0;
    const auto row_offsets = multiples(rows, in_), weight_offsets = multiples(out_, in_);
    split(stream, out_, [&](std::int64_t begin, std::int64_t end) {
      const std::span<const std::int64_t> all(weight_offsets);
      add_dot_products(
          {1, in_}, from, row_offsets, weights,
          all.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
          to + begin, out_);
    });
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape&, Layout) override {
    Tensor x_grad = Tensor::empty(Shape{grad.dim(0), in_}, DType::f64, stream.device);
    const double* slopes = grad.data<double>();
    const PackedRows packed = PackedRows::of(
        grad.dim(0), out_, [&](std::int64_t n, std::int64_t o) { return slopes[n * out_ + o]; });
    multiply(stream, packed, weight_, x_grad);
    return x_grad;
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    const double* slopes = grad.data<double>();
    const std::int64_t rows = x.dim(0);
    const PackedRows packed = PackedRows::of(
        out_, rows, [&](std::int64_t o, std::int64_t n) { return slopes[n * out_ + o]; });
    multiply(stream, packed, x, weight_grad);
    if (!bias_grad.defined()) return;
    double* sums = bias_grad.data<double>();
    std::fill_n(sums, out_, 0.0);
    for (std::int64_t n = 0; n < rows; ++n)
      for (std::int64_t o = 0; o < out_; ++o) sums[o] += slopes[n * out_ + o];
  }

 private:
  /// Calls body(begin, end) for parts of [0, count), in parallel.
  template <class Body>
  static void split(const Stream& stream, std::int64_t count, const Body& body) {
    parallel(stream, (count + block - 1) / block, 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t part = first; part < last; ++part)
        body(part * block, std::min(count, (part + 1) * block));
    });
  }

  /// to [a.rows, in] = a * from [a.depth, in].
  void multiply(const Stream& stream, const PackedRows& a, const Tensor& from, Tensor& to) const {
    const double* rows = from.data<double>();
    double* result = to.data<double>();
    const auto offsets = multiples(a.depth, in_);
    split(stream, in_, [&](std::int64_t begin, std::int64_t end) {
      add_scaled_rows(a, rows + begin, offsets.data(), end - begin, {}, result + begin, in_);
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
