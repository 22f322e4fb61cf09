#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "ops/cpu/add_up.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/matrix_product.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/pieces.h"
#include "ops/cpu/prepared_weights.h"
#include "ops/cpu/reorder.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

using dnnl::memory;

/// A range of rows (samples), or of output features in the weight gradient, that one thread
/// computes.
struct Part {
  std::int64_t first = 0, count = 0;
  PreparedPrimitive primitive;
  memory::desc weights = {};  ///< their order in the forward pass
};

/// What is compiled for one batch size and type of products. No sum is divided: a row of y or of
/// the input's gradient sums over features, and a row of the weight's gradient over all samples.
struct Prepared {
  std::int64_t rows = 0;
  DType products = DType::f32;
  std::vector<Part> forward, input_gradient, weight_gradient;
};

/// Of a part: its rows and output features, and the type of what is multiplied.
struct Sizes {
  std::int64_t rows = 0, features = 0;
  DType products = DType::f32;
};

constexpr std::int64_t most_parts = 16;

/// From this many rows on, the products of the forward pass gain more from weights in an order of
/// oneDNN's own than their copy costs. Those of the backward pass gain nothing.
constexpr std::int64_t rows_for_ordered_weights = 512;

/// Rows of a part, at least: as many as registers of a product, for fewer read the weights in vain;
/// with ordered weights, as many as make up for reading these from beyond the cache.
constexpr std::int64_t least_rows = 32, least_rows_of_ordered_weights = 256;

std::size_t scratch_of(const std::vector<Part>& parts) {
  std::size_t bytes = 0;
  for (const Part& part : parts) bytes = std::max(bytes, part.primitive.scratch_bytes());
  return aligned_bytes(bytes);
}

class OneDnnLinear final : public LayerKernel {
 public:
  explicit OneDnnLinear(const LinearOptions& options)
      : options_(options), weight_shape_{options.out_features, options.in_features} {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    check(weight, weight_shape_, "the weight");
    if (options_.bias) check(bias, {options_.out_features}, "the bias");
    weights_.use(weight, bias, version);
  }

  Tensor forward(const Stream& stream, const Tensor& x) override {
    check(x, {rows_of(x), options_.in_features}, "the input");
    Prepared& prepared = prepared_for(stream, rows_of(x));
    if (prepared.forward.empty()) prepared.forward = forward_parts(prepared);
    Tensor y = Tensor::empty({prepared.rows, options_.out_features}, DType::f32, stream.device);
    const Tensor input = rounded(stream, x);
    for (Part& part : prepared.forward)
      part.primitive.set(DNNL_ARG_WEIGHTS, used_weight(stream, part.weights));
    run_parts(stream, prepared.forward, [&](Part& part) {
      part.primitive.set(DNNL_ARG_SRC, at(input, part.first * options_.in_features));
      if (options_.bias) part.primitive.set(DNNL_ARG_BIAS, weights_.bias().raw());
      part.primitive.set(DNNL_ARG_DST, y.data<float>() + part.first * options_.out_features);
    });
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape&, Layout) override {
    check(grad, {rows_of(grad), options_.out_features}, "the output's gradient");
    Prepared& prepared = prepared_for(stream, rows_of(grad));
    if (prepared.input_gradient.empty())
      prepared.input_gradient = parts_of_rows(
          prepared, least_rows, [&](const Sizes& sizes) { return compile_input_gradient(sizes); });
    Tensor x_grad = Tensor::empty({prepared.rows, options_.in_features}, DType::f32, stream.device);
    const Tensor y_grad = rounded(stream, grad);
    const void* weight =
        used_weight(stream, onednn_memory(weight_shape_, Layout::row_major, stream.products));
    run_parts(stream, prepared.input_gradient, [&](Part& part) {
      part.primitive.set(DNNL_ARG_DIFF_DST, at(y_grad, part.first * options_.out_features));
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
    if (stream.products == DType::f32)
      multiply_gradient(stream, x, grad, weight_grad, bias_grad);
    else
      rounded_gradient(stream, x, grad, weight_grad, bias_grad);
  }

 private:
  static std::int64_t rows_of(const Tensor& tensor) {
    return tensor.rank() > 0 ? tensor.shape()[0] : 0;
  }

  std::int64_t feature_groups(std::int64_t rows) const {
    return equal_groups(options_.out_features, 1, 32, parts_for(rows));
  }

  /// A product of matrices takes columns of the output's gradient where they lie.
  void multiply_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                         Tensor& weight_grad, Tensor& bias_grad) const {
    const std::int64_t rows = rows_of(x), in = options_.in_features, out = options_.out_features;
    const std::int64_t groups = feature_groups(rows), group = out / groups;
    const auto* inputs = x.data<float>();
    const auto* grads = grad.data<float>();
    auto* const sums = weight_grad.data<float>();
    float* const bias_sums = options_.bias ? bias_grad.data<float>() : nullptr;
    run_pieces(stream, static_cast<std::size_t>(groups), 0, [&](std::size_t i, std::byte*) {
      const std::int64_t first = static_cast<std::int64_t>(i) * group;
      multiply({group, rows, in}, 1.0f, {grads + first, out, true}, {inputs, in}, false,
               sums + first * in, in, nullptr);
      if (bias_sums) add_up_in_f64({}, {grads + first, out, rows}, group, 1.0, bias_sums + first);
    });
  }

  void rounded_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                        Tensor& weight_grad, Tensor& bias_grad) {
    Prepared& prepared = prepared_for(stream, rows_of(x));
    auto& parts = prepared.weight_gradient;
    if (parts.empty()) parts = parts_of_features(prepared);
    const Tensor input = rounded(stream, x), y_grad = rounded(stream, grad);
    const std::size_t gradient_at = scratch_of(parts);
    const std::int64_t out = options_.out_features, group = parts.front().count;
    const std::size_t group_bytes = static_cast<std::size_t>(group) * size_of(prepared.products);
    const auto gathered = group < out ? static_cast<std::size_t>(prepared.rows) * group_bytes : 0;
    run_pieces(stream, parts.size(), gradient_at + gathered, [&](std::size_t i, std::byte* memory) {
      Part& part = parts[i];
      std::byte* const columns = memory + gradient_at;
      if (gathered > 0)
        for (std::int64_t row = 0; row < prepared.rows; ++row)
          std::memcpy(columns + static_cast<std::size_t>(row) * group_bytes,
                      at(y_grad, row * out + part.first), group_bytes);
      part.primitive.set(DNNL_ARG_SRC, input.raw());
      part.primitive.set(DNNL_ARG_DIFF_DST, gathered > 0 ? columns : y_grad.raw());
      part.primitive.set(DNNL_ARG_DIFF_WEIGHTS,
                         weight_grad.data<float>() + part.first * options_.in_features);
      if (options_.bias)
        part.primitive.set(DNNL_ARG_DIFF_BIAS, bias_grad.data<float>() + part.first);
      part.primitive.execute_here(memory);
    });
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

  static const std::byte* at(const Tensor& tensor, std::int64_t element) {
    return static_cast<const std::byte*>(tensor.raw()) +
           static_cast<std::size_t>(element) * size_of(tensor.dtype());
  }

  static Tensor rounded(const Stream& stream, const Tensor& tensor) {
    return in_layout(stream, tensor, Layout::row_major, stream.products);
  }

  Prepared& prepared_for(const Stream& stream, std::int64_t rows) {
    constexpr std::size_t most = 16;
    for (Prepared& prepared : prepared_)
      if (prepared.rows == rows && prepared.products == stream.products) return prepared;
    if (prepared_.size() == most) prepared_.pop_back();
    return prepared_.emplace_front(Prepared{rows, stream.products, {}, {}, {}});
  }

  /// As many parts as take 0.1 ms each.
  std::int64_t parts_for(std::int64_t rows) const {
    const std::int64_t work = rows * options_.in_features * options_.out_features;
    return std::clamp<std::int64_t>(work / 4'000'000, 1, most_parts);
  }

  template <class Compile>
  std::vector<Part> parts_of_rows(const Prepared& prepared, std::int64_t least,
                                  const Compile& compile) const {
    const std::int64_t rows = prepared.rows;
    const std::int64_t count = std::clamp<std::int64_t>(rows / least, 1, parts_for(rows));
    const std::int64_t each = (rows + count - 1) / count;
    use_one_thread();
    std::vector<Part> parts;
    for (std::int64_t first = 0; first < rows; first += each) {
      const std::int64_t size = std::min(each, rows - first);
      parts.push_back(compile({size, options_.out_features, prepared.products}));
      parts.back().first = first, parts.back().count = size;
    }
    return parts;
  }

  std::vector<Part> forward_parts(const Prepared& prepared) const {
    const bool ordered =
        prepared.products == DType::f32 && prepared.rows >= rows_for_ordered_weights;
    return parts_of_rows(prepared, ordered ? least_rows_of_ordered_weights : least_rows,
                         [&](const Sizes& sizes) { return compile_forward(sizes, ordered); });
  }

  std::vector<Part> parts_of_features(const Prepared& prepared) const {
    const std::int64_t count = options_.out_features / feature_groups(prepared.rows);
    use_one_thread();
    std::vector<Part> parts;
    for (std::int64_t first = 0; first < options_.out_features; first += count)
      parts.push_back(
          {first, count, compile_weight_gradient({prepared.rows, count, prepared.products})});
    return parts;
  }

  template <class Set>
  static void run_parts(const Stream& stream, std::vector<Part>& parts, const Set& set) {
    run_pieces(stream, parts.size(), scratch_of(parts), [&](std::size_t i, std::byte* memory) {
      set(parts[i]);
      parts[i].primitive.execute_here(memory);
    });
  }

  const void* used_weight(const Stream& stream, const memory::desc& order) {
    if (!weights_.defined())
      throw Error(ErrorCode::internal, fmt::format("linear {} -> {}: computed before use_weights",
                                                   options_.in_features, options_.out_features));
    return weights_.in_order(stream, order, {0, 0});
  }

  memory::desc x_memory(const Sizes& sizes, DType dtype) const {
    return onednn_memory({sizes.rows, options_.in_features}, Layout::row_major, dtype);
  }
  memory::desc weight_memory(const Sizes& sizes, DType dtype) const {
    return onednn_memory({sizes.features, options_.in_features}, Layout::row_major, dtype);
  }
  memory::desc bias_memory(const Sizes& sizes) const {
    return options_.bias ? onednn_memory({sizes.features}, Layout::row_major) : memory::desc();
  }
  static memory::desc y_memory(const Sizes& sizes, DType dtype) {
    return onednn_memory({sizes.rows, sizes.features}, Layout::row_major, dtype);
  }

  // What is multiplied has the type of the products. What is summed is f32; but `y` has that type
  // too where this describes the forward pass of a gradient.
  dnnl::inner_product_forward::primitive_desc describe_forward(const Sizes& s, DType y,
                                                               const memory::desc& weights) const {
    return {{dnnl::prop_kind::forward_training, x_memory(s, s.products), weights, bias_memory(s),
             y_memory(s, y)},
            onednn_attributes(),
            onednn_engine()};
  }
  dnnl::inner_product_forward::primitive_desc describe_forward(const Sizes& s, DType y) const {
    return describe_forward(s, y, weight_memory(s, s.products));
  }

  Part compile_forward(const Sizes& s, bool ordered) const {
    const auto description = describe_forward(
        s, DType::f32, ordered ? onednn_any_memory(weight_shape_) : weight_memory(s, s.products));
    const memory::desc weights = description.weights_desc();
    PreparedPrimitive::Arguments arguments{{DNNL_ARG_SRC, x_memory(s, s.products)},
                                           {DNNL_ARG_WEIGHTS, weights},
                                           {DNNL_ARG_DST, y_memory(s, DType::f32)}};
    if (options_.bias) arguments.emplace_back(DNNL_ARG_BIAS, bias_memory(s));
    return {.primitive = {dnnl::inner_product_forward(description), arguments,
                          description.scratchpad_desc()},
            .weights = weights};
  }

  Part compile_input_gradient(const Sizes& s) const {
    const auto x = x_memory(s, DType::f32), weights = weight_memory(s, s.products),
               y = y_memory(s, s.products);
    const dnnl::inner_product_backward_data::primitive_desc description(
        {x, weights, y}, onednn_attributes(), onednn_engine(), describe_forward(s, s.products));
    return {
        .primitive = {dnnl::inner_product_backward_data(description),
                      {{DNNL_ARG_DIFF_SRC, x}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, y}},
                      description.scratchpad_desc()}};
  }

  PreparedPrimitive compile_weight_gradient(const Sizes& s) const {
    const auto x = x_memory(s, s.products), weights = weight_memory(s, DType::f32),
               bias = bias_memory(s), y = y_memory(s, s.products);
    const dnnl::inner_product_backward_weights::primitive_desc description(
        {x, weights, bias, y}, onednn_attributes(), onednn_engine(),
        describe_forward(s, s.products));
    PreparedPrimitive::Arguments arguments{
        {DNNL_ARG_SRC, x}, {DNNL_ARG_DIFF_WEIGHTS, weights}, {DNNL_ARG_DIFF_DST, y}};
    if (options_.bias) arguments.emplace_back(DNNL_ARG_DIFF_BIAS, bias);
    return {dnnl::inner_product_backward_weights(description), arguments,
            description.scratchpad_desc()};
  }

  LinearOptions options_;
  Shape weight_shape_;
  PreparedWeights weights_;
  std::deque<Prepared> prepared_;
};

}  // namespace

// Primitives are kept, and divided by shape, as by convolution(). The gradient of the weights stays
// row-major; so do the weights, except for the forward pass of many rows.
std::unique_ptr<LayerKernel> linear(const LinearOptions& options) {
  if (options.in_features < 1 || options.out_features < 1)
    throw Error(ErrorCode::bad_shape,
                fmt::format("linear {} -> {}: a size is zero or negative", options.in_features,
                            options.out_features),
                "both feature counts are at least 1");
  return std::make_unique<OneDnnLinear>(options);
}

}  // namespace troupe::cpu
