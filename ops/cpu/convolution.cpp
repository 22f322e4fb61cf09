#include <fmt/format.h>

#include <array>
#include <deque>
#include <optional>
#include <string_view>

#include "ops/cpu/convolution_rule.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/prepared_weights.h"
#include "ops/cpu/reorder.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

using dnnl::memory;

/// One direction, compiled for one input shape and number of threads.
struct Compiled {
  Layout x;
  Layout y;
  memory::desc weights;  ///< of the weights or, in the weight gradient, of their gradient
  PreparedPrimitive primitive;
  std::optional<PreparedPrimitive> export_gradient;  ///< into row-major, where that differs
};

/// What is compiled for one input shape and number of threads.
struct Prepared {
  Shape x_shape;
  Shape y_shape;
  int threads = 1;
  std::array<std::optional<Compiled>, 3> directions;  ///< by ConvolutionDirection
};

/// Describes a convolution to oneDNN along one path.
class Describer {
 public:
  Describer(const ConvolutionOptions& options, const Prepared& prepared,
            const ConvolutionPath& path)
      : path_(path),
        algorithm_(path.winograd ? dnnl::algorithm::convolution_winograd
                                 : dnnl::algorithm::convolution_direct),
        x_(onednn_memory(prepared.x_shape, path.x)),
        weights_(onednn_any_memory(
            {options.out_channels, options.in_channels, options.kernel_h, options.kernel_w})),
        bias_(options.bias ? onednn_memory({options.out_channels}, Layout::row_major)
                           : memory::desc()),
        y_(onednn_memory(prepared.y_shape, path.y)),
        stride_{options.stride_h, options.stride_w},
        padding_{options.padding_h, options.padding_w},
        padding_end_{end_padding(prepared, options, 0), end_padding(prepared, options, 1)} {}

  dnnl::convolution_forward::primitive_desc forward() const {
    return {{dnnl::prop_kind::forward_training, algorithm_, x_, weights_, bias_, y_, stride_,
             padding_, padding_end_},
            onednn_attributes(),
            onednn_engine()};
  }

  dnnl::convolution_backward_data::primitive_desc input_gradient() const {
    return {{algorithm_, x_, weights_, y_, stride_, padding_, padding_end_},
            onednn_attributes(),
            onednn_engine(),
            forward()};
  }

  dnnl::convolution_backward_weights::primitive_desc weight_gradient() const {
    return {{algorithm_, x_, weights_, bias_, y_, stride_, padding_, padding_end_},
            onednn_attributes(),
            onednn_engine(),
            forward()};
  }

  PreparedPrimitive::Arguments arguments(int x, int weights, const memory::desc& order, int bias,
                                         int y) const {
    PreparedPrimitive::Arguments result{{x, x_}, {weights, order}, {y, y_}};
    if (bias != 0 && !bias_.is_zero()) result.emplace_back(bias, bias_);
    return result;
  }

  const ConvolutionPath& path() const { return path_; }

 private:
  /// What is left over at the bottom or right: less than the padding where a stride does not fit,
  /// even negative.
  static std::int64_t end_padding(const Prepared& prepared, const ConvolutionOptions& o, int axis) {
    const std::int64_t kernel = axis == 0 ? o.kernel_h : o.kernel_w;
    const std::int64_t stride = axis == 0 ? o.stride_h : o.stride_w;
    const std::int64_t padding = axis == 0 ? o.padding_h : o.padding_w;
    return (prepared.y_shape[2 + axis] - 1) * stride + kernel - prepared.x_shape[2 + axis] -
           padding;
  }

  ConvolutionPath path_;
  dnnl::algorithm algorithm_;
  memory::desc x_, weights_, bias_, y_;
  memory::dims stride_, padding_, padding_end_;
};

// oneDNN always has a plain loop to fall back to, hundreds of times slower than any other choice.
template <class Description>
void refuse_plain_loops(const Description& description, bool last_choice) {
  if (!last_choice && std::string_view(description.impl_info_str()).starts_with("ref"))
    throw dnnl::error(dnnl_unimplemented, "only a plain loop");
}

Compiled compile(const Describer& describer, ConvolutionDirection direction, bool last_choice) {
  const ConvolutionPath& path = describer.path();
  if (direction == ConvolutionDirection::forward) {
    const auto description = describer.forward();
    refuse_plain_loops(description, last_choice);
    const memory::desc order = description.weights_desc();
    return {path.x, path.y, order,
            PreparedPrimitive(dnnl::convolution_forward(description),
                              describer.arguments(DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, order,
                                                  DNNL_ARG_BIAS, DNNL_ARG_DST),
                              description.scratchpad_desc()),
            std::nullopt};
  }
  if (direction == ConvolutionDirection::input_gradient) {
    const auto description = describer.input_gradient();
    refuse_plain_loops(description, last_choice);
    const memory::desc order = description.weights_desc();
    return {path.x, path.y, order,
            PreparedPrimitive(dnnl::convolution_backward_data(description),
                              describer.arguments(DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, order, 0,
                                                  DNNL_ARG_DIFF_DST),
                              description.scratchpad_desc()),
            std::nullopt};
  }
  const auto description = describer.weight_gradient();
  refuse_plain_loops(description, last_choice);
  const memory::desc order = description.diff_weights_desc();
  return {path.x, path.y, order,
          PreparedPrimitive(dnnl::convolution_backward_weights(description),
                            describer.arguments(DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, order,
                                                DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST),
                            description.scratchpad_desc()),
          std::nullopt};
}

class OneDnnConvolution final : public LayerKernel {
 public:
  explicit OneDnnConvolution(const ConvolutionOptions& options)
      : options_(options),
        weight_shape_{options.out_channels, options.in_channels, options.kernel_h,
                      options.kernel_w} {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    check(weight, weight_shape_, "the weight");
    if (options_.bias) check(bias, {options_.out_channels}, "the bias");
    weights_.use(weight, bias, version);
  }

  Tensor forward(const Stream& stream, const Tensor& x) override {
    Prepared& prepared = prepared_for(stream, x.shape());
    check(x, prepared.x_shape, "the input");
    Compiled& compiled = direction(prepared, ConvolutionDirection::forward);
    const Tensor input = in_layout(stream, x, compiled.x);
    Tensor y = Tensor::empty(prepared.y_shape, DType::f32, stream.device, compiled.y);
    compiled.primitive.set(DNNL_ARG_SRC, input.raw());
    compiled.primitive.set(DNNL_ARG_WEIGHTS, weights(stream, compiled));
    if (options_.bias) compiled.primitive.set(DNNL_ARG_BIAS, weights_.bias().raw());
    compiled.primitive.set(DNNL_ARG_DST, y.raw());
    compiled.primitive.run(stream);
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    Prepared& prepared = prepared_for(stream, x_shape);
    check(grad, prepared.y_shape, "the output's gradient");
    Compiled& compiled = direction(prepared, ConvolutionDirection::input_gradient);
    const Tensor y_grad = in_layout(stream, grad, compiled.y);
    Tensor x_grad = Tensor::empty(x_shape, DType::f32, stream.device, compiled.x);
    compiled.primitive.set(DNNL_ARG_DIFF_DST, y_grad.raw());
    compiled.primitive.set(DNNL_ARG_WEIGHTS, weights(stream, compiled));
    compiled.primitive.set(DNNL_ARG_DIFF_SRC, x_grad.raw());
    compiled.primitive.run(stream);
    return in_layout(stream, x_grad, x_layout);
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    Prepared& prepared = prepared_for(stream, x.shape());
    check(x, prepared.x_shape, "the input");
    check(grad, prepared.y_shape, "the output's gradient");
    check(weight_grad, weight_shape_, "the weight's gradient");
    if (options_.bias) check(bias_grad, {options_.out_channels}, "the bias's gradient");
    Compiled& compiled = direction(prepared, ConvolutionDirection::weight_gradient);
    const Tensor input = in_layout(stream, x, compiled.x);
    const Tensor y_grad = in_layout(stream, grad, compiled.y);
    compiled.primitive.set(DNNL_ARG_SRC, input.raw());
    compiled.primitive.set(DNNL_ARG_DIFF_DST, y_grad.raw());
    if (options_.bias) compiled.primitive.set(DNNL_ARG_DIFF_BIAS, bias_grad.raw());
    if (!compiled.export_gradient) {
      compiled.primitive.set(DNNL_ARG_DIFF_WEIGHTS, weight_grad.raw());
      compiled.primitive.run(stream);
      return;
    }
    const Tensor ordered = Tensor::empty({static_cast<std::int64_t>(compiled.weights.get_size())},
                                         DType::u8, stream.device);
    compiled.primitive.set(DNNL_ARG_DIFF_WEIGHTS, ordered.raw());
    compiled.primitive.run(stream);
    compiled.export_gradient->set(DNNL_ARG_FROM, ordered.raw());
    compiled.export_gradient->set(DNNL_ARG_TO, weight_grad.raw());
    compiled.export_gradient->run(copy_stream(stream, weight_grad.bytes()));
  }

 private:
  void check(const Tensor& tensor, const Shape& shape, std::string_view what) const {
    if (!tensor.defined())
      throw Error(ErrorCode::bad_shape, fmt::format("{}: {} is missing, expected {}",
                                                    describe(options_), what, to_string(shape)));
    const bool plain = shape.rank() == 1 || shape == weight_shape_;
    if (tensor.shape() == shape && tensor.dtype() == DType::f32 &&
        (!plain || tensor.layout() == Layout::row_major))
      return;
    throw Error(ErrorCode::bad_shape,
                fmt::format("{}: {} is {} {} ({}), expected f32 {}", describe(options_), what,
                            name_of(tensor.dtype()), to_string(tensor.shape()),
                            name_of(tensor.layout()), to_string(shape)),
                "pass the tensors of the same forward pass; weights are row_major [O, I, KH, KW]");
  }

  // A batch of another size comes at the end of an epoch and in evaluation; the oldest goes when
  // sizes never stop changing.
  Prepared& prepared_for(const Stream& stream, const Shape& x_shape) {
    constexpr std::size_t most = 16;
    for (Prepared& prepared : prepared_)
      if (prepared.x_shape == x_shape && prepared.threads == stream.threads) return prepared;
    if (prepared_.size() == most) prepared_.pop_back();
    return prepared_.emplace_front(
        Prepared{x_shape, convolution_output_shape(options_, x_shape), stream.threads, {}});
  }

  Compiled& direction(Prepared& prepared, ConvolutionDirection direction) {
    auto& compiled = prepared.directions[static_cast<std::size_t>(direction)];
    if (compiled) return *compiled;
    const Stream stream{.threads = prepared.threads};
    use_stream_threads(stream);
    const auto paths = convolution_paths(options_, prepared.x_shape, direction);
    for (std::size_t i = 0; i < paths.size() && !compiled; ++i) {
      const bool last_choice = i + 1 == paths.size();
      try {
        compiled = compile(Describer(options_, prepared, paths[i]), direction, last_choice);
      } catch (const dnnl::error& error) {
        if (last_choice)
          throw Error(ErrorCode::unsupported,
                      fmt::format("{}: oneDNN refuses an input of {}: {}", describe(options_),
                                  to_string(prepared.x_shape), error.what()));
      }
    }
    const auto plain = onednn_memory(weight_shape_, Layout::row_major);
    if (direction == ConvolutionDirection::weight_gradient && compiled->weights != plain)
      compiled->export_gradient = prepare_copy(stream, compiled->weights, plain);
    return *compiled;
  }

  const void* weights(const Stream& stream, const Compiled& compiled) {
    if (!weights_.defined())
      throw Error(ErrorCode::internal, describe(options_) + ": computed before use_weights");
    return weights_.in_order(stream, compiled.weights);
  }

  ConvolutionOptions options_;
  Shape weight_shape_;
  PreparedWeights weights_;
  std::deque<Prepared> prepared_;
};

}  // namespace

// Algorithm and layouts follow convolution_rule.h; an input in another layout is reordered, not
// refused. Primitives are compiled once for each input shape and number of threads; the weights are
// brought into the primitives' order once a version. The kernel reads the weights that it was given
// until it is given others.
std::unique_ptr<LayerKernel> convolution(const ConvolutionOptions& options) {
  if (options.in_channels < 1 || options.out_channels < 1 || options.kernel_h < 1 ||
      options.kernel_w < 1 || options.stride_h < 1 || options.stride_w < 1 ||
      options.padding_h < 0 || options.padding_w < 0)
    throw Error(ErrorCode::bad_shape, describe(options) + ": a size is zero or negative",
                "channels, kernel and stride are at least 1, padding at least 0");
  return std::make_unique<OneDnnConvolution>(options);
}

}  // namespace troupe::cpu
