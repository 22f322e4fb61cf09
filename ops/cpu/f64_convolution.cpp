// Convolutions in f64 by the planes of f64_planes.h and the products of f64_products.h.

#include <algorithm>
#include <optional>
#include <vector>

#include "ops/cpu/convolution_rule.h"
#include "ops/cpu/f64_kernels.h"
#include "ops/cpu/f64_planes.h"
#include "ops/cpu/f64_products.h"
#include "ops/cpu/parallel.h"
#include "ops/cpu/scratch.h"
#include "ops/reference/kernels.h"
#include "ops/reference/reorder.h"

namespace troupe::cpu {
namespace {

/// Calls body(sample, working memory of `elements`) for all samples, in parallel.
template <class Body>
void for_samples(const Stream& stream, std::int64_t samples, std::int64_t elements,
                 const Body& body) {
  const std::int64_t parts = std::min<std::int64_t>(samples, std::max(stream.threads, 1));
  const Scratch scratch(static_cast<std::size_t>(parts * elements) * sizeof(double));
  auto* memory = static_cast<double*>(scratch.data());
  parallel(stream, parts, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t part = begin; part < end; ++part)
      for (std::int64_t n = samples * part / parts; n < samples * (part + 1) / parts; ++n)
        body(n, memory + part * elements);
  });
}

class Convolution final : public LayerKernel {
 public:
  explicit Convolution(const ConvolutionOptions& options) : o_(options) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    if (weight_.defined() && version == version_) return;
    weight_ = weight;
    bias_ = bias;
    version_ = version;
    packed_.reset();
    packed_gradient_.clear();
  }

  Tensor forward(const Stream& stream, const Tensor& given) override {
    const Tensor x = reference::row_major(given);
    Tensor y = Tensor::empty(convolution_output_shape(o_, x.shape()), DType::f64, stream.device);
    const Axis v = vertical(x.shape(), y.shape()), h = horizontal(x.shape(), y.shape());
    const Planes planes = input_planes(v, h);
    const std::int64_t columns = rounded_up(v.out * planes.width);
    const auto offsets = input_offsets(v, h, planes);
    if (!packed_) packed_ = pack_weights();
    const double *from = x.data<double>(), *bias = bias_.defined() ? bias_.data<double>() : nullptr;
    auto* to = y.data<double>();
    const std::int64_t x_size = x.element_count() / x.dim(0), plane = v.out * h.out;
    for_samples(stream, x.dim(0), planes.elements() + o_.out_channels * columns,
                [&](std::int64_t n, double* memory) {
                  double* sums = memory + planes.elements();
                  fill_input(from + n * x_size, v, h, planes, memory);
                  add_scaled_rows(packed_->rows, memory, offsets.data(), columns, {.bias = bias},
                                  sums, columns);
                  for (std::int64_t c = 0; c < o_.out_channels; ++c)
                    for (std::int64_t row = 0; row < v.out; ++row)
                      std::copy_n(sums + c * columns + row * planes.width, h.out,
                                  to + (n * o_.out_channels + c) * plane + row * h.out);
                });
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& given, const Shape& x_shape,
                        Layout x_layout) override {
    const Tensor grad = reference::row_major(given);
    const Axis v = vertical(x_shape, grad.shape()), h = horizontal(x_shape, grad.shape());
    Tensor x_grad = Tensor::empty(x_shape, DType::f64, stream.device);
    const Planes planes{o_.out_channels, v.count() + v.reach(), h.count() + h.reach()};
    const std::int64_t columns = rounded_up(v.count() * planes.width);
    if (packed_gradient_.empty()) pack_gradient(v, h);
    std::vector<std::vector<std::int64_t>> offsets;
    for (std::int64_t a = 0; a < v.stride; ++a)
      for (std::int64_t b = 0; b < h.stride; ++b)
        offsets.push_back(gradient_offsets(v, h, planes, a, b));
    const double* from = grad.data<double>();
    auto* to = x_grad.data<double>();
    const std::int64_t size = o_.out_channels * v.out * h.out,
                       x_size = o_.in_channels * v.in * h.in;
    for_samples(stream, x_shape[0], planes.elements() + o_.in_channels * columns,
                [&](std::int64_t n, double* memory) {
                  double* sums = memory + planes.elements();
                  fill_gradient(from + n * size, v, h, planes, memory);
                  for (std::size_t phase = 0; phase < offsets.size(); ++phase) {
                    add_scaled_rows(packed_gradient_[phase].rows, memory, offsets[phase].data(),
                                    columns, {}, sums, columns);
                    scatter(sums, columns, planes.width, v, h, static_cast<std::int64_t>(phase),
                            to + n * x_size);
                  }
                });
    return reference::in_layout(x_grad, x_layout);
  }

  void weight_gradient(const Stream& stream, const Tensor& given_x, const Tensor& given_grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    const Tensor x = reference::row_major(given_x), grad = reference::row_major(given_grad);
    const Axis v = vertical(x.shape(), grad.shape()), h = horizontal(x.shape(), grad.shape());
    const Planes planes = input_planes(v, h);
    const std::int64_t columns = rounded_up(v.out * planes.width), samples = x.dim(0);
    const std::int64_t per_sample = planes.elements() + o_.out_channels * columns;
    // As many samples at a time as a core's cache takes: a tile then sums over all of them.
    constexpr std::int64_t cached = 65536;
    const std::int64_t group = std::clamp<std::int64_t>(cached / per_sample, 1, samples);
    const Scratch scratch(static_cast<std::size_t>(group * per_sample) * sizeof(double));
    auto* inputs = static_cast<double*>(scratch.data());
    double* slopes = inputs + group * planes.elements();
    const auto offsets = input_offsets(v, h, planes);
    std::vector<std::int64_t> rows;
    for (std::int64_t c = 0; c < o_.out_channels; ++c) rows.push_back(c * columns);
    const std::int64_t x_size = x.element_count() / samples, size = grad.element_count() / samples;
    const auto depth = static_cast<std::int64_t>(offsets.size());
    const double *from = x.data<double>(), *grads = grad.data<double>();
    auto* to = weight_grad.data<double>();
    std::fill_n(to, weight_grad.element_count(), 0.0);
    for (std::int64_t begin = 0; begin < samples; begin += group) {
      const std::int64_t count = std::min(group, samples - begin);
      parallel(stream, count, 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t n = first; n < last; ++n) {
          fill_input(from + (begin + n) * x_size, v, h, planes, inputs + n * planes.elements());
          fill_slopes(grads + (begin + n) * size, v, h, planes.width, columns,
                      slopes + n * o_.out_channels * columns);
        }
      });
      // A multiple of the columns that add_dot_products sums at once.
      constexpr std::int64_t tile = 6;
      parallel(stream, (depth + tile - 1) / tile, 1, [&](std::int64_t first, std::int64_t last) {
        const std::int64_t k = first * tile, end = std::min(depth, last * tile);
        add_dot_products({count, columns}, {slopes, o_.out_channels * columns}, rows,
                         {inputs, planes.elements()},
                         std::span(offsets).subspan(static_cast<std::size_t>(k),
                                                    static_cast<std::size_t>(end - k)),
                         to + k, depth);
      });
    }
    if (bias_grad.defined()) sum_channels(grad, v.out * h.out, bias_grad);
  }

 private:
  Axis vertical(const Shape& x, const Shape& y) const {
    return {x[2], y[2], o_.kernel_h, o_.stride_h, o_.padding_h};
  }
  Axis horizontal(const Shape& x, const Shape& y) const {
    return {x[3], y[3], o_.kernel_w, o_.stride_w, o_.padding_w};
  }
  Planes input_planes(const Axis& v, const Axis& h) const {
    return {o_.in_channels * v.phases() * h.phases(), v.phase_size(), h.phase_size()};
  }

  /// Where the inputs of each kernel element begin, in the order of the weights.
  std::vector<std::int64_t> input_offsets(const Axis& v, const Axis& h,
                                          const Planes& planes) const {
    std::vector<std::int64_t> offsets;
    for (std::int64_t i = 0; i < o_.in_channels; ++i)
      for (std::int64_t kh = 0; kh < v.kernel; ++kh)
        for (std::int64_t kw = 0; kw < h.kernel; ++kw) {
          const std::int64_t plane = (i * v.phases() + kh % v.stride) * h.phases() + kw % h.stride;
          offsets.push_back(plane * planes.size() + kh / v.stride * planes.width + kw / h.stride);
        }
    return offsets;
  }

  void fill_input(const double* x, const Axis& v, const Axis& h, const Planes& planes,
                  double* to) const {
    std::fill_n(to, planes.elements(), 0.0);
    for (std::int64_t i = 0; i < o_.in_channels; ++i)
      for (std::int64_t row = 0; row < v.in; ++row) {
        const std::int64_t a = (row + v.padding) % v.stride, u = (row + v.padding) / v.stride;
        if (a >= v.phases() || u >= planes.height) continue;
        const double* from = x + (i * v.in + row) * h.in;
        for (std::int64_t b = 0; b < h.phases(); ++b) {
          const std::int64_t plane = (i * v.phases() + a) * h.phases() + b;
          double* line = to + plane * planes.size() + u * planes.width;
          // Numbers s * w + b are inputs s * w + b - padding.
          const std::int64_t skipped =
              h.padding > b ? (h.padding - b + h.stride - 1) / h.stride : 0;
          for (std::int64_t w = skipped; w < planes.width; ++w) {
            const std::int64_t column = w * h.stride + b - h.padding;
            if (column >= h.in) break;
            line[w] = from[column];
          }
        }
      }
  }

  /// The output's gradient as rows of columns, with zeroes in the gaps.
  void fill_slopes(const double* grad, const Axis& v, const Axis& h, std::int64_t width,
                   std::int64_t columns, double* to) const {
    std::fill_n(to, o_.out_channels * columns, 0.0);
    for (std::int64_t c = 0; c < o_.out_channels; ++c)
      for (std::int64_t row = 0; row < v.out; ++row)
        std::copy_n(grad + (c * v.out + row) * h.out, h.out, to + c * columns + row * width);
  }

  void fill_gradient(const double* grad, const Axis& v, const Axis& h, const Planes& planes,
                     double* to) const {
    std::fill_n(to, planes.elements(), 0.0);
    const std::int64_t left = h.reach() - h.first();  // the place of output 0
    const std::int64_t begin = std::max<std::int64_t>(0, -left);
    const std::int64_t end = std::min(h.out, planes.width - left);
    if (begin >= end) return;
    for (std::int64_t c = 0; c < o_.out_channels; ++c)
      for (std::int64_t row = 0; row < v.out; ++row) {
        const std::int64_t place = row + v.reach() - v.first();
        if (place < 0 || place >= planes.height) continue;
        std::copy(grad + (c * v.out + row) * h.out + begin, grad + (c * v.out + row) * h.out + end,
                  to + c * planes.size() + place * planes.width + left + begin);
      }
  }

  std::vector<std::int64_t> gradient_offsets(const Axis& v, const Axis& h, const Planes& planes,
                                             std::int64_t a, std::int64_t b) const {
    std::vector<std::int64_t> offsets;
    for (std::int64_t c = 0; c < o_.out_channels; ++c)
      for (std::int64_t j = 0; j < v.taps(a); ++j)
        for (std::int64_t k = 0; k < h.taps(b); ++k)
          offsets.push_back(c * planes.size() + (v.reach() - j) * planes.width + h.reach() - k);
    return offsets;
  }

  /// Writes a phase's columns to the inputs that it belongs to.
  void scatter(const double* sums, std::int64_t columns, std::int64_t width, const Axis& v,
               const Axis& h, std::int64_t phase, double* to) const {
    const std::int64_t a = phase / h.stride, b = phase % h.stride;
    for (std::int64_t i = 0; i < o_.in_channels; ++i)
      for (std::int64_t u = 0; u < v.count(); ++u) {
        const std::int64_t row = (u + v.first()) * v.stride + a - v.padding;
        if (row < 0 || row >= v.in) continue;
        const double* from = sums + i * columns + u * width;
        double* line = to + (i * v.in + row) * h.in;
        for (std::int64_t w = 0; w < h.count(); ++w) {
          const std::int64_t column = (w + h.first()) * h.stride + b - h.padding;
          if (column >= 0 && column < h.in) line[column] = from[w];
        }
      }
  }

  void sum_channels(const Tensor& grad, std::int64_t plane, Tensor& sums) const {
    const double* from = grad.data<double>();
    auto* to = sums.data<double>();
    for (std::int64_t c = 0; c < o_.out_channels; ++c) {
      double sum = 0;
      for (std::int64_t n = 0; n < grad.dim(0); ++n)
        for (std::int64_t e = 0; e < plane; ++e) sum += from[(n * o_.out_channels + c) * plane + e];
      to[c] = sum;
    }
  }

  /// Packed rows and their memory.
  struct Packed {
    Tensor memory;
    PackedRows rows;

    template <class Element>
    Packed(std::int64_t count, std::int64_t depth, const Element& element)
        : memory(Tensor::empty({PackedRows::elements(count, depth)}, DType::f64, Device::cpu())),
          rows(PackedRows::in(memory.data<double>(), count, depth, element)) {}
  };

  Packed pack_weights() const {
    const std::int64_t depth = o_.in_channels * o_.kernel_h * o_.kernel_w;
    const double* weights = weight_.data<double>();
    return {o_.out_channels, depth,
            [&](std::int64_t m, std::int64_t k) { return weights[m * depth + k]; }};
  }

  void pack_gradient(const Axis& v, const Axis& h) {
    const double* weights = weight_.data<double>();
    for (std::int64_t a = 0; a < v.stride; ++a)
      for (std::int64_t b = 0; b < h.stride; ++b) {
        const std::int64_t rows = v.taps(a), columns = h.taps(b);
        packed_gradient_.emplace_back(
            o_.in_channels, o_.out_channels * rows * columns, [&](std::int64_t i, std::int64_t k) {
              const std::int64_t c = k / (rows * columns), j = k / columns % rows;
              const std::int64_t kh = a + v.stride * j, kw = b + h.stride * (k % columns);
              return weights[((c * o_.in_channels + i) * v.kernel + kh) * h.kernel + kw];
            });
      }
  }

  ConvolutionOptions o_;
  Tensor weight_, bias_;
  std::uint64_t version_ = 0;
  std::optional<Packed> packed_;
  std::vector<Packed> packed_gradient_;  ///< by phase, the column's changing fastest
};

}  // namespace

// Grouped and dilated convolutions, which are few, take the reference's loops.
std::unique_ptr<LayerKernel> convolution_f64(const ConvolutionOptions& options) {
  if (options.groups != 1 || options.dilation_h != 1 || options.dilation_w != 1)
    return reference::convolution(options);
  return std::make_unique<Convolution>(options);
}

}  // namespace troupe::cpu
