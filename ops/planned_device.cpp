#include "ops/planned_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "ops/attention_sizes.h"
#include "ops/backend.h"
#include "ops/cpu/backend.h"

namespace troupe {
namespace {

using cuda::ConvolutionPass;
using cuda::ConvolutionWork;

// The most that cuBLASLt is given (ops/cuda/blas.cpp), and that the scores of a part of an
// attention are (ops/cuda/attention.cu).
constexpr std::size_t product_bytes = std::size_t{32} << 20;
constexpr std::int64_t most_scores = std::int64_t{1} << 25;

struct Planned {
  PlannedDeviceOptions options;
  std::size_t peak = 0;  ///< of working memory, since it was taken

  std::int64_t samples(std::int64_t run) const {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(run) * options.samples_factor));
  }
  void note(std::size_t bytes) { peak = std::max(peak, bytes); }
};

Planned& planned() {
  static auto* one = new Planned;  // its Device may be in a static
  return *one;
}

Tensor zeroed(const Stream& stream, const Shape& shape, DType dtype, Layout layout) {
  Tensor made = Tensor::empty(shape, dtype, stream.device, layout);
  std::memset(made.raw(), 0, made.bytes());
  return made;
}

/// Allocates results as ops/cuda/convolution.cpp does.
class PlannedConvolution final : public LayerKernel {
 public:
  explicit PlannedConvolution(const ConvolutionOptions& options) : o_(options) {}

  void use_weights(const Stream&, const Tensor&, const Tensor& bias, std::uint64_t) override {
    has_bias_ = bias.defined();
  }
  Tensor forward(const Stream& stream, const Tensor& x) override {
    const Shape y{x.dim(0), o_.out_channels,
                  (x.dim(2) + 2 * o_.padding_h - reach_h(o_)) / o_.stride_h + 1,
                  (x.dim(3) + 2 * o_.padding_w - reach_w(o_)) / o_.stride_w + 1};
    note(ConvolutionPass::forward, x.dtype(), x.layout(), x.shape(), y);
    return zeroed(stream, y, x.dtype(), x.layout());
  }
  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    note(ConvolutionPass::input_gradient, grad.dtype(), x_layout, x_shape, grad.shape());
    return zeroed(stream, x_shape, grad.dtype(), x_layout);
  }
  void weight_gradient(const Stream&, const Tensor& x, const Tensor& grad, Tensor& weight_grad,
                       Tensor& bias_grad) override {
    note(ConvolutionPass::weight_gradient, x.dtype(), x.layout(), x.shape(), grad.shape());
    for (Tensor* made : {&weight_grad, &bias_grad})
      if (made->defined()) std::memset(made->raw(), 0, made->bytes());
  }

 private:
  void note(ConvolutionPass pass, DType dtype, Layout layout, const Shape& x, const Shape& y) {
    const std::int64_t samples = planned().samples(x[0]);
    if (x.element_count() == 0 || y.element_count() == 0) return;
    planned().note(planned().options.workspace_bytes({.pass = pass,
                                                      .dtype = dtype,
                                                      .options = o_,
                                                      .x = {samples, x[1], x[2], x[3]},
                                                      .y = {samples, y[1], y[2], y[3]},
                                                      .bias = has_bias_,
                                                      .layout = layout}));
  }

  ConvolutionOptions o_;
  bool has_bias_ = false;
};

/// Of `count` blocks of scores at a time, beside that of their products.
void note_scores(const Tensor& q, const Tensor& k, const Tensor& v, std::size_t count) {
  const AttentionSizes sizes(q, k, v);
  const std::int64_t all = planned().samples(sizes.outer) * sizes.tokens * sizes.keys;
  const auto part = static_cast<std::size_t>(std::min(all, std::max(most_scores, 64 * sizes.keys)));
  planned().note(count * part * size_of(q.dtype()) + product_bytes);
}

template <DType dtype>
const KernelTable& cpu_table() {
  return kernels(Device::cpu(), dtype);
}

template <DType dtype>
KernelTable planned_table() {
  KernelTable table = cpu_table<dtype>();
  table.convolution = [](const ConvolutionOptions& options) -> std::unique_ptr<LayerKernel> {
    return std::make_unique<PlannedConvolution>(options);
  };
  table.attention = [](const Stream& stream, const Tensor& q, const Tensor& k, const Tensor& v,
                       const Tensor& mask, const AttentionOptions& options) {
    note_scores(q, k, v, 1);
    return cpu_table<dtype>().attention(stream, q, k, v, mask, options);
  };
  table.attention_backward = [](const Stream& stream, const Tensor& grad, const Tensor& q,
                                const Tensor& k, const Tensor& v, const Tensor& mask,
                                const AttentionOutput& output, const AttentionOptions& options) {
    note_scores(q, k, v, 2);
    return cpu_table<dtype>().attention_backward(stream, grad, q, k, v, mask, output, options);
  };
  return table;
}

const KernelTable* table_of(DType dtype) {
  static const KernelTable f32 = planned_table<DType::f32>(), f64 = planned_table<DType::f64>();
  return dtype == DType::f32 ? &f32 : dtype == DType::f64 ? &f64 : nullptr;
}

const Backend& planned_backend() {
  static const Backend all = [] {
    Backend made = cpu_backend();
    made.name = "cuda";
    made.allocator = [](std::int16_t) -> CachingAllocator& {
      constexpr std::align_val_t alignment{64};
      static auto* allocator = new CachingAllocator(
          {&planned_backend(), 0},
          {.allocate =
               [](std::size_t bytes) { return operator new(bytes, alignment, std::nothrow); },
           .release = [](void* block, std::size_t) { operator delete(block, alignment); }});
      return *allocator;
    };
    made.kernels = table_of;
    made.take_scratch_peak = [](std::int16_t) {
      return std::max(std::exchange(planned().peak, 0), product_bytes);
    };
    made.fingerprint = [] { return planned().options.title; };
    return made;
  }();
  return all;
}

}  // namespace

Device planned_device(PlannedDeviceOptions options) {
  planned() = {.options = std::move(options)};
  return {&planned_backend(), 0};
}

}  // namespace troupe
