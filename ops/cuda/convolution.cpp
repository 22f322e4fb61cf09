#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/cuda/direct_convolution.h"
#include "ops/cuda/dnn.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_weights.h"
#include "ops/cuda/workspace.h"

namespace troupe::cuda {
namespace {

Tensor in_layout(const Stream& stream, const Tensor& tensor, Layout layout) {
  if (tensor.layout() == layout) return tensor;
  Tensor to = result(stream, tensor.shape(), tensor.dtype(), layout);
  reorder(stream, tensor, to);
  return to;
}

/// Everything stays in the layout that x has: with f32 cuDNN is at its best with row-major images,
/// which it would copy to otherwise. What it has no plan for is computed by the kernels of
/// direct_convolution.h.
class Convolution final : public LayerKernel {
 public:
  explicit Convolution(const ConvolutionOptions& options) : o_(options) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    if (weights_.use(weight, bias, version)) nhwc_weight_ = {};
  }

  Tensor forward(const Stream& stream, const Tensor& x) override {
    Tensor y = result(stream, output_shape(x.shape()), x.dtype(), x.layout());
    ConvolutionPlan* plan =
        plan_of(ConvolutionPass::forward, x.dtype(), x.layout(), x.shape(), y.shape());
    if (plan)
      run(stream, *plan, x, weight_in(stream, x.layout()), y);
    else
      direct_forward(stream, o_, x, weights_.weight, weights_.bias, y);
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    Tensor x_grad = result(stream, x_shape, grad.dtype(), x_layout);
    ConvolutionPlan* plan =
        plan_of(ConvolutionPass::input_gradient, grad.dtype(), x_layout, x_shape, grad.shape());
    if (plan)
      run(stream, *plan, x_grad, weight_in(stream, x_layout), in_layout(stream, grad, x_layout));
    else
      direct_input_gradient(stream, o_, grad, weights_.weight, x_grad);
    return x_grad;
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    bias_gradient(stream, grad, bias_grad);
    ConvolutionPlan* plan =
        plan_of(ConvolutionPass::weight_gradient, x.dtype(), x.layout(), x.shape(), grad.shape());
    if (!plan) return direct_weight_gradient(stream, o_, x, grad, weight_grad);
    const Tensor like_x = in_layout(stream, grad, x.layout());
    if (x.layout() == weight_grad.layout()) return run(stream, *plan, x, weight_grad, like_x);
    const Tensor nhwc = result(stream, weight_grad.shape(), x.dtype(), x.layout());
    run(stream, *plan, x, nhwc, like_x);
    reorder(stream, nhwc, weight_grad);
  }

 private:
  using Key = std::tuple<ConvolutionPass, DType, Layout, std::vector<std::int64_t>>;

  Shape output_shape(const Shape& x) const {
    return {x[0], o_.out_channels, (x[2] + 2 * o_.padding_h - reach_h(o_)) / o_.stride_h + 1,
            (x[3] + 2 * o_.padding_w - reach_w(o_)) / o_.stride_w + 1};
  }
  /// Null where cuDNN has none.
  ConvolutionPlan* plan_of(ConvolutionPass pass, DType dtype, Layout layout, const Shape& x,
                           const Shape& y) {
    if (x.element_count() == 0 || y.element_count() == 0) return nullptr;
    const Key key{pass, dtype, layout, {x.dims().begin(), x.dims().end()}};
    const auto found = plans_.find(key);
    if (found != plans_.end()) return found->second.get();
    const ConvolutionWork work{.pass = pass,
                               .dtype = dtype,
                               .options = o_,
                               .x = x,
                               .y = y,
                               .bias = weights_.bias.defined(),
                               .layout = layout};
    return plans_.emplace(key, plan_convolution(work)).first->second.get();
  }
  const Tensor& weight_in(const Stream& stream, Layout layout) {
    if (layout == weights_.weight.layout()) return weights_.weight;
    if (!nhwc_weight_.defined()) nhwc_weight_ = in_layout(stream, weights_.weight, Layout::nhwc);
    return nhwc_weight_;
  }
  void run(const Stream& stream, ConvolutionPlan& plan, const Tensor& x, const Tensor& weight,
           const Tensor& y) {
    const Tensor memory = workspace(stream, plan.workspace_bytes());
    for (const Tensor& used : {x, weight, weights_.bias, y}) note_use(stream, used);
    plan.run(stream, x.raw(), weight.raw(), weights_.bias.raw(), y.raw(), memory.raw());
  }

  ConvolutionOptions o_;
  LayerWeights weights_;
  Tensor nhwc_weight_;  ///< of this version; undefined until a plan needs it
  std::map<Key, std::unique_ptr<ConvolutionPlan>> plans_;
};

}  // namespace

std::unique_ptr<LayerKernel> convolution(const ConvolutionOptions& options) {
  return std::make_unique<Convolution>(options);
}

}  // namespace troupe::cuda
