#include "ops/planned_device.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <utility>

#include "ops/attention_sizes.h"
#include "ops/backend.h"
#include "ops/cpu/backend.h"
#include "ops/cpu/convolution_rule.h"
#include "ops/gpu_factors.h"
#include "ops/gpu_sizes.h"
#include "ops/planned_kernels.h"

namespace troupe {
namespace {

struct Planned {
  PlannedDeviceOptions options;
  std::set<std::size_t> scratch;  ///< as Backend::take_scratch

  std::int64_t samples(std::int64_t run) const {
    return static_cast<std::int64_t>(std::ceil(static_cast<double>(run) * options.samples_factor));
  }
  void note(std::size_t bytes) { scratch.insert(bytes); }
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

/// A stream of the GPU that is planned.
Stream gpu_stream() {
  return {.products = planned().options.products, .conv_tf32 = planned().options.conv_tf32};
}
DType factor_type(DType dtype) { return troupe::factor_type(gpu_stream(), dtype); }

/// Of a tensor with the planned number of samples.
std::size_t bytes(const Shape& shape, DType dtype) {
  if (shape.rank() == 0 || shape[0] == 0) return 0;
  const std::int64_t samples = planned().samples(shape[0]);
  return static_cast<std::size_t>(shape.element_count() / shape[0] * samples) * size_of(dtype);
}
/// Of a factor in the type and the layout that are multiplied, if it has others.
std::size_t copied(const Tensor& factor) {
  const DType type = factor_type(factor.dtype());
  const bool reordered = factor.shape().rank() == 4 && factor.layout() != Layout::nhwc &&
                         uses_tensor_cores(gpu_stream(), type);
  return type == factor.dtype() && !reordered ? 0 : bytes(factor.shape(), type);
}
void clear(Tensor& weight_grad, Tensor& bias_grad) {
  for (Tensor* made : {&weight_grad, &bias_grad})
    if (made->defined()) std::memset(made->raw(), 0, made->bytes());
}

/// A weight in another form, which a layer keeps until the weight changes.
class WeightCopy {
 public:
  void use(const Tensor& weight, std::uint64_t version) {
    if (weight_.defined() && version_ == version) return;
    weight_ = weight;
    version_ = version;
    copy_ = {};
  }
  void make(const Stream& stream, Layout layout, DType dtype) {
    if (!weight_.defined() || copy_.defined() ||
        (layout == weight_.layout() && dtype == weight_.dtype()))
      return;
    const LastingScope lasting;
    copy_ = Tensor::empty(weight_.shape(), dtype, stream.device, layout);
  }

 private:
  Tensor weight_, copy_;
  std::uint64_t version_ = 0;
};

/// Allocates results as ops/cuda/convolution.cpp does.
class PlannedConvolution final : public LayerKernel {
 public:
  explicit PlannedConvolution(const ConvolutionOptions& options) : o_(options) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    weight_.use(weight.reshape(weight_shape(o_)), version);
    has_bias_ = bias.defined();
  }
  Tensor forward(const Stream& stream, const Tensor& x) override {
    const Shape y = cpu::convolution_output_shape(o_, x.shape());
    // At most, if the plan does not add the bias: the sum in f32 without it and with it.
    const std::size_t sum =
        has_bias_ && is_narrow(factor_type(x.dtype())) ? 2 * bytes(y, DType::f32) : 0;
    const Layout layout =
        run(stream, ConvolutionPass::forward, x.dtype(), x.layout(), x.shape(), y, copied(x) + sum);
    return zeroed(stream, y, factor_type(x.dtype()), layout);
  }
  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    run(stream, ConvolutionPass::input_gradient, grad.dtype(), x_layout, x_shape, grad.shape(),
        copied(grad) + bytes(x_shape, factor_type(grad.dtype())));
    return zeroed(stream, x_shape, factor_type(grad.dtype()), x_layout);
  }
  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    const auto narrow =
        static_cast<std::size_t>(weight_grad.element_count()) * size_of(factor_type(x.dtype()));
    run(stream, ConvolutionPass::weight_gradient, x.dtype(), x.layout(), x.shape(), grad.shape(),
        copied(x) + copied(grad) + narrow);
    clear(weight_grad, bias_grad);
  }

 private:
  /// Notes the working memory, `others` of it for what is not cuDNN's. The layout of what is
  /// multiplied, and of the result.
  Layout run(const Stream& stream, ConvolutionPass pass, DType dtype, Layout layout, const Shape& x,
             const Shape& y, std::size_t others) {
    const ConvolutionForm form = convolution_form(gpu_stream(), dtype, layout);
    if (x.element_count() == 0 || y.element_count() == 0) return form.layout;
    weight_.make(stream, form.layout, form.dtype);
    const std::int64_t samples = planned().samples(x[0]);
    const ConvolutionWork work{.pass = pass,
                               .dtype = form.dtype,
                               .options = o_,
                               .x = {samples, x[1], x[2], x[3]},
                               .y = {samples, y[1], y[2], y[3]},
                               .bias = has_bias_,
                               .layout = form.layout,
                               .tf32 = form.tf32,
                               .deterministic = planned().options.deterministic};
    const bool copies = uses_tensor_cores(gpu_stream(), form.dtype);
    planned().note(planned().options.workspace_bytes(work) + (copies ? others : 0));
    return form.layout;
  }

  ConvolutionOptions o_;
  WeightCopy weight_;
  bool has_bias_ = false;
};

/// Allocates results as ops/cuda/linear.cpp does.
class PlannedLinear final : public LayerKernel {
 public:
  explicit PlannedLinear(const LinearOptions& options) : out_(options.out_features) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    weight_.use(weight, version);
    if (bias.defined()) bias_.use(bias, version);
  }
  Tensor forward(const Stream& stream, const Tensor& x) override {
    bias_.make(stream, Layout::row_major, factor_type(x.dtype()));
    return made(stream, x, Shape{x.dim(0), out_});
  }
  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout) override {
    return made(stream, grad, x_shape);
  }
  void weight_gradient(const Stream&, const Tensor& x, const Tensor& grad, Tensor& weight_grad,
                       Tensor& bias_grad) override {
    planned().note(copied(x) + copied(grad) + product_workspace_limit);
    clear(weight_grad, bias_grad);
  }

 private:
  /// A product of `factor` and the weight.
  Tensor made(const Stream& stream, const Tensor& factor, const Shape& shape) {
    const DType type = factor_type(factor.dtype());
    weight_.make(stream, Layout::row_major, type);
    planned().note(copied(factor) + product_workspace_limit);
    return zeroed(stream, shape, type, Layout::row_major);
  }

  std::int64_t out_;
  WeightCopy weight_, bias_;
};

/// Of `count` blocks of scores at a time, beside that of their products.
void note_scores(const Tensor& q, const Tensor& k, const Tensor& v, std::size_t count) {
  const AttentionSizes sizes(q, k, v);
  const std::int64_t all = planned().samples(sizes.outer) * sizes.tokens * sizes.keys;
  const auto part =
      static_cast<std::size_t>(std::min(all, std::max(scores_of_a_part, 64 * sizes.keys)));
  planned().note(count * part * size_of(computed_type(q.dtype())) + product_workspace_limit);
}
/// Allocates results as ops/cuda/attention.cu does, beside copies of tensors of 16 bits.
AttentionOutput planned_attention(const Stream& stream, const Tensor& q, const Tensor& k,
                                  const Tensor& v, const Tensor& mask, const AttentionOptions&) {
  note_scores(q, k, v, 1);
  const Tensor copies[] = {widened(stream, q), widened(stream, k), widened(stream, v),
                           widened(stream, mask)};
  const AttentionSizes s(q, k, v);
  const DType type = computed_type(q.dtype());
  return {zeroed(stream, AttentionSizes::y_shape(q, v), type, Layout::row_major),
          zeroed(stream, {s.outer, s.tokens}, type, Layout::row_major)};
}
AttentionGradients planned_attention_backward(const Stream& stream, const Tensor& grad,
                                              const Tensor& q, const Tensor& k, const Tensor& v,
                                              const Tensor& mask, const AttentionOutput&,
                                              const AttentionOptions&) {
  note_scores(q, k, v, 2);
  const Tensor copies[] = {widened(stream, grad), widened(stream, q), widened(stream, k),
                           widened(stream, v), widened(stream, mask)};
  const auto gradient = [&](const Tensor& of) {
    return zeroed(stream, of.shape(), computed_type(of.dtype()), Layout::row_major);
  };
  return {gradient(q), gradient(k), gradient(v)};
}

template <DType dtype>
const KernelTable& computing() {
  static const KernelTable table = planned_kernels(dtype);
  return table;
}

template <DType dtype>
KernelTable planned_table() {
  KernelTable table = computing<dtype>();
  table.convolution = [](const ConvolutionOptions& options) -> std::unique_ptr<LayerKernel> {
    return std::make_unique<PlannedConvolution>(options);
  };
  table.linear = [](const LinearOptions& options) -> std::unique_ptr<LayerKernel> {
    return std::make_unique<PlannedLinear>(options);
  };
  // Of each window, which element is the largest (ops/cuda/pooling.cu).
  table.max_pool_backward = [](const Stream& stream, const Tensor& grad, const Tensor& x,
                               const PoolOptions& options) {
    const bool small = options.kernel_h * options.kernel_w <= UINT8_MAX;
    planned().note(bytes(grad.shape(), small ? DType::u8 : DType::u32));
    return computing<dtype>().max_pool_backward(stream, grad, x, options);
  };
  table.attention = &planned_attention;
  table.attention_backward = &planned_attention_backward;
  return table;
}

const KernelTable* table_of(DType dtype) {
  static const KernelTable f32 = planned_table<DType::f32>(), f64 = planned_table<DType::f64>();
  if (dtype == DType::f32 || is_narrow(dtype)) return &f32;
  return dtype == DType::f64 ? &f64 : nullptr;
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
    made.multiplies = [](DType products) { return products == DType::f32 || is_narrow(products); };
    made.has_tf32 = [] { return true; };
    made.take_scratch = [](std::int16_t) {
      planned().note(product_workspace_limit);
      return std::exchange(planned().scratch, {});
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
