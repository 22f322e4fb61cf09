#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

#include "ops/cpu/kernels.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/pieces.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

using dnnl::memory;

/// A range of rows (samples), or of output features in the weight gradient, that one thread
/// computes.
struct Part {
  std::int64_t first = 0, count = 0;
  PreparedPrimitive primitive;
};

/// What is compiled for one batch size. No sum is divided: a row of y or of the input's gradient
/// sums over features, and a row of the weight's gradient over all samples.
struct Prepared {
  std::int64_t rows = 0;
  std::vector<Part> forward, input_gradient, weight_gradient;
};

constexpr std::int64_t most_parts = 16;

std::size_t scratch_of(const std::vector<Part>& parts) {
  std::size_t bytes = 0;
  for (const Part& part : parts) bytes = std::max(bytes, part.primitive.scratch_bytes());
  return aligned_bytes(bytes);
}

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
    Prepared& prepared = prepared_for(rows_of(x));
    if (prepared.forward.empty())
      prepared.forward =
          parts_of_rows(prepared.rows, [&](std::int64_t rows) { return compile_forward(rows); });
    Tensor y = Tensor::empty({prepared.rows, options_.out_features}, DType::f32, stream.device);
    const void* weight = used_weight();
    run_parts(stream, prepared.forward, [&](Part& part) {
      part.primitive.set(DNNL_ARG_SRC, x.data<float>() + part.first * options_.in_features);
      part.primitive.set(DNNL_ARG_WEIGHTS, weight);
      if (options_.bias) part.primitive.set(DNNL_ARG_BIAS, bias_tensor_.raw());
      part.primitive.set(DNNL_ARG_DST, y.data<float>() + part.first * options_.out_features);
    });
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape&, Layout) override {
    check(grad, {rows_of(grad), options_.out_features}, "the output's gradient");
    Prepared& prepared = prepared_for(rows_of(grad));
    if (prepared.input_gradient.empty())
      prepared.input_gradient = parts_of_rows(
          prepared.rows, [&](std::int64_t rows) { return compile_input_gradient(rows); });
    Tensor x_grad = Tensor::empty({prepared.rows, options_.in_features}, DType::f32, stream.device);
    const void* weight = used_weight();
    run_parts(stream, prepared.input_gradient, [&](Part& part) {
      part.primitive.set(DNNL_ARG_DIFF_DST,
                         grad.data<float>() + part.first * options_.out_features);
      part.primitive.set(DNNL_ARG_WEIGHTS, weight);
      part.primitive.set(DNNL_ARG_DIFF_SRC,
                         x_grad.data<float>() + part.first * options_.in_features);
    });
    return x_grad;
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    check(x, {rows_of(x), options_.in_features}, "the input");
    check(grad, {rows_of(x), options_.out_features}, "the output's gradient");
    check(weight_grad, weight_shape_, "the weight's gradient");
    if (options_.bias) check(bias_grad, {options_.out_features}, "the bias's gradient");
    Prepared& prepared = prepared_for(rows_of(x));
    auto& parts = prepared.weight_gradient;
    if (parts.empty()) parts = parts_of_features(prepared.rows);
    const std::size_t gradient_at = scratch_of(parts);
    const std::int64_t out = options_.out_features, group = parts.front().count;
    const auto gathered =
        static_cast<std::size_t>(group < out ? prepared.rows * group : 0) * sizeof(float);
    run_pieces(stream, parts.size(), gradient_at + gathered, [&](std::size_t i, std::byte* memory) {
      Part& part = parts[i];
      const float* from = grad.data<float>() + part.first;
      if (gathered > 0) {
        auto* columns = reinterpret_cast<float*>(memory + gradient_at);
        for (std::int64_t row = 0; row < prepared.rows; ++row)
          std::copy_n(from + row * out, group, columns + row * group);
        from = columns;
      }
      part.primitive.set(DNNL_ARG_SRC, x.raw());
      part.primitive.set(DNNL_ARG_DIFF_DST, from);
      part.primitive.set(DNNL_ARG_DIFF_WEIGHTS,
                         weight_grad.data<float>() + part.first * options_.in_features);
      if (options_.bias)
        part.primitive.set(DNNL_ARG_DIFF_BIAS, bias_grad.data<float>() + part.first);
      return part.primitive.execute_here(memory);
    });
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

  Prepared& prepared_for(std::int64_t rows) {
    constexpr std::size_t most = 16;
    for (Prepared& prepared : prepared_)
      if (prepared.rows == rows) return prepared;
    if (prepared_.size() == most) prepared_.pop_back();
    return prepared_.emplace_front(Prepared{rows, {}, {}, {}});
  }

  /// As many parts as take 0.1 ms each.
  std::int64_t parts_for(std::int64_t rows) const {
    const std::int64_t work = rows * options_.in_features * options_.out_features;
    return std::clamp<std::int64_t>(work / 4'000'000, 1, most_parts);
  }

  template <class Compile>
  std::vector<Part> parts_of_rows(std::int64_t rows, const Compile& compile) const {
    // At least as many rows as registers of a matrix product: fewer read the weights in vain.
    const std::int64_t each =
        std::max<std::int64_t>(32, (rows + parts_for(rows) - 1) / parts_for(rows));
    use_stream_threads({.threads = 1});
    std::vector<Part> parts;
    for (std::int64_t first = 0; first < rows; first += each) {
      const std::int64_t count = std::min(each, rows - first);
      parts.push_back({first, count, compile(count)});
    }
    return parts;
  }

  std::vector<Part> parts_of_features(std::int64_t rows) const {
    const std::int64_t groups = equal_groups(options_.out_features, 1, 32, parts_for(rows));
    const std::int64_t count = options_.out_features / groups;
    use_stream_threads({.threads = 1});
    std::vector<Part> parts;
    for (std::int64_t first = 0; first < options_.out_features; first += count)
      parts.push_back({first, count, compile_weight_gradient(rows, count)});
    return parts;
  }

  template <class Set>
  static void run_parts(const Stream& stream, std::vector<Part>& parts, const Set& set) {
    run_pieces(stream, parts.size(), scratch_of(parts), [&](std::size_t i, std::byte* memory) {
      set(parts[i]);
      return parts[i].primitive.execute_here(memory);
    });
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

  PreparedPrimitive compile_weight_gradient(std::int64_t rows, std::int64_t features) const {
    const auto x = x_memory(rows), y = onednn_memory({rows, features}, Layout::row_major);
    const auto weights = onednn_memory({features, options_.in_features}, Layout::row_major);
    const auto bias = options_.bias ? onednn_memory({features}, Layout::row_major) : memory::desc();
    const dnnl::inner_product_forward::primitive_desc forward(
        {dnnl::prop_kind::forward_training, x, weights, bias, y}, onednn_attributes(),
        onednn_engine());
    const dnnl::inner_product_backward_weights::primitive_desc description(
        {x, weights, bias, y}, onednn_attributes(), onednn_engine(), forward);
    PreparedPrimitive::Arguments arguments{
        {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, y}};
    if (options_.bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, bias);
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

// Primitives are kept, and divided by shape, as by convolution(). Weights and their gradient stay
// row-major: nothing is reordered.
std::unique_ptr<LayerKernel> linear(const LinearOptions& options) {
  if (options.in_features < 1 || options.out_features < 1)
    throw Error(ErrorCode::bad_shape,
                fmt::format("linear {} -> {}: a size is zero or negative", options.in_features,
                            options.out_features),
                "both feature counts are at least 1");
  return std::make_unique<OneDnnLinear>(options);
}

}  // namespace troupe::cpu
