#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "ops/cuda/convert.h"
#include "ops/cuda/direct_convolution.h"
#include "ops/cuda/dnn.h"
#include "ops/cuda/elements.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/layer_weights.h"
#include "ops/gpu_factors.h"

namespace troupe::cuda {
namespace {

/// With tensor cores cuDNN is at its best with nhwc. Otherwise everything stays in the layout that
/// x has, since most plans for nhwc need the memory of a copy in row-major. Images are of the type
/// of the factors, and so are the copies of weights that cuDNN reads and the weight gradients that
/// it writes. Sums, stored weights and the gradients that are passed on are in f32. What cuDNN has
/// no plan for is computed by the kernels of direct_convolution.h.
class Convolution final : public LayerKernel {
 public:
  explicit Convolution(const ConvolutionOptions& options) : o_(options) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    weights_.use(weight.reshape(weight_shape(o_)), bias, version);  // one of sequences has no row
  }

  Tensor forward(const Stream& stream, const Tensor& x) override {
    const ConvolutionForm form = convolution_form(stream, x.dtype(), x.layout());
    const Shape y_shape = output_shape(x.shape());
    const Tensor factor = factor_of(stream, x, form);
    ConvolutionPlan* plan = plan_of(stream, ConvolutionPass::forward, form, x.shape(), y_shape);
    if (!plan) {
      Tensor y = result(stream, y_shape, computed_type(form.dtype), form.layout);
      direct_forward(stream, o_, factor, row_major_weight(stream, form), weights_.bias, y);
      return in_form(stream, y, form.layout, form.dtype);
    }
    Tensor y = result(stream, y_shape, form.dtype, form.layout);
    plan->run(stream, factor, weight_in(stream, form), weights_.bias, y);
    if (plan->adds_bias() || !weights_.bias.defined()) return y;
    const Tensor sum = arithmetic(stream, ArithmeticOperation::add, y,
                                  weights_.bias.reshape({1, o_.out_channels, 1, 1}));
    return in_form(stream, sum, form.layout, form.dtype);
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    const ConvolutionForm form = convolution_form(stream, grad.dtype(), x_layout);
    const Tensor factor = factor_of(stream, grad, form);
    ConvolutionPlan* plan =
        plan_of(stream, ConvolutionPass::input_gradient, form, x_shape, grad.shape());
    Tensor x_grad =
        result(stream, x_shape, plan ? form.dtype : computed_type(form.dtype), form.layout);
    if (plan)
      plan->run(stream, x_grad, weight_in(stream, form), {}, factor);
    else
      direct_input_gradient(stream, o_, factor, row_major_weight(stream, form), x_grad);
    return in_form(stream, x_grad, x_layout, form.dtype);
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& given_grad, Tensor& bias_grad) override {
    if (bias_grad.defined()) channel_sums(stream, grad, bias_grad);
    Tensor weight_grad = given_grad.reshape(weight_shape(o_));
    const ConvolutionForm form = convolution_form(stream, x.dtype(), x.layout());
    const Tensor x_factor = factor_of(stream, x, form);
    const Tensor grad_factor = factor_of(stream, grad, form);
    ConvolutionPlan* plan =
        plan_of(stream, ConvolutionPass::weight_gradient, form, x.shape(), grad.shape());
    if (!plan) return direct_weight_gradient(stream, o_, x_factor, grad_factor, weight_grad);
    if (form.layout == weight_grad.layout() && form.dtype == weight_grad.dtype())
      return plan->run(stream, x_factor, weight_grad, {}, grad_factor);
    const Tensor found = result(stream, weight_grad.shape(), form.dtype, form.layout);
    plan->run(stream, x_factor, found, {}, grad_factor);
    reorder(stream, found, weight_grad);
  }

 private:
  /// The tensor in this form. cuDNN's plans need addresses that are multiples of 16; a part of a
  /// batch may begin elsewhere.
  static Tensor factor_of(const Stream& stream, const Tensor& tensor, const ConvolutionForm& form) {
    const Tensor factor = in_form(stream, tensor, form.layout, form.dtype);
    if (reinterpret_cast<std::uintptr_t>(factor.raw()) % 16 == 0) return factor;
    Tensor aligned = result_like(stream, factor);
    copy(stream, factor, aligned);
    return aligned;
  }
  Shape output_shape(const Shape& x) const {
    return {x[0], o_.out_channels, (x[2] + 2 * o_.padding_h - reach_h(o_)) / o_.stride_h + 1,
            (x[3] + 2 * o_.padding_w - reach_w(o_)) / o_.stride_w + 1};
  }
  /// Null where cuDNN has none.
  ConvolutionPlan* plan_of(const Stream& stream, ConvolutionPass pass, const ConvolutionForm& form,
                           const Shape& x, const Shape& y) {
    if (x.element_count() == 0 || y.element_count() == 0) return nullptr;
    const ConvolutionWork work{.pass = pass,
                               .dtype = form.dtype,
                               .options = o_,
                               .x = x,
                               .y = y,
                               .bias = weights_.bias.defined(),
                               .layout = form.layout,
                               .tf32 = form.tf32,
                               .deterministic = stream.deterministic};
    const auto found = plans_.find(work);
    if (found != plans_.end()) return found->second.get();
    return plans_.emplace(work, plan_convolution(stream, work)).first->second.get();
  }
  const Tensor& weight_in(const Stream& stream, const ConvolutionForm& form) {
    return weights_.weight_in(stream, form.layout, form.dtype);
  }
  const Tensor& row_major_weight(const Stream& stream, const ConvolutionForm& form) {
    return weights_.weight_in(stream, Layout::row_major, form.dtype);
  }

  ConvolutionOptions o_;
  LayerWeights weights_;
  std::map<ConvolutionWork, std::shared_ptr<ConvolutionPlan>> plans_;
};

}  // namespace

std::unique_ptr<LayerKernel> convolution(const ConvolutionOptions& options) {
  return std::make_unique<Convolution>(options);
}

}  // namespace troupe::cuda
