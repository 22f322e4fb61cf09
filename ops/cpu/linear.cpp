#include <fmt/format.h>

#include <deque>
#include <optional>

#include "ops/cpu/kernels.h"
#include "ops/cpu/onednn.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

using dnnl::memory;

/// What is compiled for one batch size and number of threads.
struct Prepared {
  std::int64_t rows = 0;
  int threads = 1;
  std::optional<PreparedPrimitive> forward, input_gradient, weight_gradient;
};

class OneDnnLinear final : public LayerKernel {
 public:
  explicit OneDnnLinear(const LinearOptions& options)
      : options_(options),
        weight_shape_{options.out_features, options.in_features},
        weights_(onednn_memory(weight_shape_, Layout::row_major)),
        bias_(options.bias ? onednn_memory({options.out_features}, Layout::row_major)
                           : memory::desc()) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    check(weight, weight_shape_, "the weight");
    if (options_.bias) check(bias, {options_.out_features}, "the bias");
    if (version_ == version) return;
    version_ = version;
    weight_tensor_ = weight;
    bias_tensor_ = bias;
  }

  Tensor forward(const Stream& stream, const Tensor& x) override {
    check(x, {rows_of(x), options_.in_features}, "the input");
    Prepared& prepared = prepared_for(stream, rows_of(x));
    if (!prepared.forward) prepared.forward = compile_forward(prepared.rows);
    Tensor y = Tensor::empty({prepared.rows, options_.out_features}, DType::f32, stream.device);
    prepared.forward->set(DNNL_ARG_SRC, x.raw());
    prepared.forward->set(DNNL_ARG_WEIGHTS, used_weight());
    if (options_.bias) prepared.forward->set(DNNL_ARG_BIAS, bias_tensor_.raw());
    prepared.forward->set(DNNL_ARG_DST, y.raw());
    prepared.forward->run(stream);
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape&, Layout) override {
    check(grad, {rows_of(grad), options_.out_features}, "the output's gradient");
    Prepared& prepared = prepared_for(stream, rows_of(grad));
    if (!prepared.input_gradient) prepared.input_gradient = compile_input_gradient(prepared.rows);
    Tensor x_grad = Tensor::empty({prepared.rows, options_.in_features}, DType::f32, stream.device);
    prepared.input_gradient->set(DNNL_ARG_DIFF_DST, grad.raw());
    prepared.input_gradient->set(DNNL_ARG_WEIGHTS, used_weight());
    prepared.input_gradient->set(DNNL_ARG_DIFF_SRC, x_grad.raw());
    prepared.input_gradient->run(stream);
    return x_grad;
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    check(x, {rows_of(x), options_.in_features}, "the input");
    check(grad, {rows_of(x), options_.out_features}, "the output's gradient");
    check(weight_grad, weight_shape_, "the weight's gradient");
    if (options_.bias) check(bias_grad, {options_.out_features}, "the bias's gradient");
    Prepared& prepared = prepared_for(stream, rows_of(x));
    if (!prepared.weight_gradient)
      prepared.weight_gradient = compile_weight_gradient(prepared.rows);
    prepared.weight_gradient->set(DNNL_ARG_SRC, x.raw());
    prepared.weight_gradient->set(DNNL_ARG_DIFF_DST, grad.raw());
    prepared.weight_gradient->set(DNNL_ARG_DIFF_WEIGHTS, weight_grad.raw());
    if (options_.bias) prepared.weight_gradient->set(DNNL_ARG_DIFF_BIAS, bias_grad.raw());
    prepared.weight_gradient->run(stream);
  }

 private:
  static std::int64_t rows_of(const Tensor& tensor) {
    return tensor.rank() > 0 ? tensor.shape()[0] : 0;
  }

  void check(const Tensor& tensor, const Shape& shape, std::string_view what) const {
    if (tensor.defined() && tensor.shape() == shape && tensor.dtype() == DType::f32 &&
        tensor.layout() == Layout::row_major && shape[0] > 0)
      return;
    const std::string found =
        tensor.defined() ? fmt::format("{} {}", name_of(tensor.dtype()), to_string(tensor.shape()))
                         : "missing";
    throw Error(ErrorCode::bad_shape,
                fmt::format("linear {} -> {}: {} is {}, expected f32 {}", options_.in_features,
                            options_.out_features, what, found, to_string(shape)),
                "check in_features and out_features; images are flattened to [N, features] first");
  }

  Prepared& prepared_for(const Stream& stream, std::int64_t rows) {
    constexpr std::size_t most = 16;
    use_stream_threads(stream);  // what follows may compile
    for (Prepared& prepared : prepared_)
      if (prepared.rows == rows && prepared.threads == stream.threads) return prepared;
    if (prepared_.size() == most) prepared_.pop_back();
    return prepared_.emplace_front(Prepared{rows, stream.threads, {}, {}, {}});
  }

  const void* used_weight() const {
    if (!weight_tensor_.defined())
      throw Error(ErrorCode::internal, fmt::format("linear {} -> {}: computed before use_weights",
                                                   options_.in_features, options_.out_features));
    return weight_tensor_.raw();
  }

  memory::desc x_memory(std::int64_t rows) const {
    return onednn_memory({rows, options_.in_features}, Layout::row_major);
  }
  memory::desc y_memory(std::int64_t rows) const {
    return onednn_memory({rows, options_.out_features}, Layout::row_major);
  }

  dnnl::inner_product_forward::primitive_desc describe_forward(std::int64_t rows) const {
    return {{dnnl::prop_kind::forward_training, x_memory(rows), weights_, bias_, y_memory(rows)},
            onednn_attributes(),
            onednn_engine()};
  }

  PreparedPrimitive compile_forward(std::int64_t rows) const {
    const auto description = describe_forward(rows);
    PreparedPrimitive::Arguments arguments{{DNNL_ARG_SRC, x_memory(rows)},
                                           {DNNL_ARG_WEIGHTS, weights_},
                                           {DNNL_ARG_DST, y_memory(rows)}};
    if (options_.bias) arguments.emplace_back(DNNL_ARG_BIAS, bias_);
    return {dnnl::inner_product_forward(description), arguments, description.scratchpad_desc()};
  }

  PreparedPrimitive compile_input_gradient(std::int64_t rows) const {
    const dnnl::inner_product_backward_data::primitive_desc description(
        {x_memory(rows), weights_, y_memory(rows)}, onednn_attributes(), onednn_engine(),
        describe_forward(rows));
    return {dnnl::inner_product_backward_data(description),
            {{DNNL_ARG_DIFF_SRC, x_memory(rows)},
             {DNNL_ARG_WEIGHTS, weights_},
             {DNNL_ARG_DIFF_DST, y_memory(rows)}},
            description.scratchpad_desc()};
  }

  PreparedPrimitive compile_weight_gradient(std::int64_t rows) const {
    const dnnl::inner_product_backward_weights::primitive_desc description(
        {x_memory(rows), weights_, bias_, y_memory(rows)}, onednn_attributes(), onednn_engine(),
        describe_forward(rows));
    PreparedPrimitive::Arguments arguments{{DNNL_ARG_SRC, x_memory(rows)},
                                           {DNNL_ARG_DIFF_WEIGHTS, weights_},
                                           {DNNL_ARG_DIFF_DST, y_memory(rows)}};
    if (options_.bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, bias_);
    return {dnnl::inner_product_backward_weights(description), arguments,
            description.scratchpad_desc()};
  }

  LinearOptions options_;
  Shape weight_shape_;
  memory::desc weights_, bias_;
  Tensor weight_tensor_, bias_tensor_;
  std::optional<std::uint64_t> version_;
  std::deque<Prepared> prepared_;
};

}  // namespace

// Primitives are kept as by convolution(). Weights and their gradient stay row-major: nothing is
// reordered.
std::unique_ptr<LayerKernel> linear(const LinearOptions& options) {
  if (options.in_features < 1 || options.out_features < 1)
    throw Error(ErrorCode::bad_shape,
                fmt::format("linear {} -> {}: a size is zero or negative", options.in_features,
                            options.out_features),
                "both feature counts are at least 1");
  return std::make_unique<OneDnnLinear>(options);
}

}  // namespace troupe::cpu
