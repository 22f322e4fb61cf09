#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/cpu/convolution_pieces.h"
#include "ops/cpu/depthwise.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/onednn.h"
#include "ops/cpu/pieces.h"
#include "ops/cpu/prepared_copy.h"
#include "ops/cpu/prepared_weights.h"
#include "ops/cpu/reorder.h"
#include "ops/cpu/winograd_convolution.h"
#include "runtime/error.h"

namespace troupe::cpu {
namespace {

using dnnl::memory;

/// A piece of a direction, with where its memory lies in the scratch memory of a thread.
struct Part {
  CompiledPiece compiled;
  std::optional<PreparedPrimitive> export_gradient;  ///< into row-major, where that differs
  std::size_t channels_at = 0;  ///< of a copy of the piece's channels, where it has not all
  std::size_t ordered_at = 0;   ///< of a weight gradient in the primitive's order
  std::size_t bytes = 0;        ///< of all
};

/// One direction, compiled for one input shape.
struct Compiled {
  ConvolutionPath path;
  std::vector<ConvolutionPiece> pieces;
  // Of direct paths:
  std::vector<Part> parts;    ///< one for each piece
  std::size_t bytes = 0;      ///< of scratch memory for a thread
  std::int64_t partials = 1;  ///< sums that a weight gradient consists of
};

/// What is compiled for one input shape and type of products.
struct Prepared {
  Shape x_shape;
  bool stays_nhwc = false;
  Shape y_shape;
  DType products = DType::f32;
  std::array<std::optional<Compiled>, 3> directions;  ///< by ConvolutionDirection
};

std::size_t sample_offset(const Tensor& tensor, std::int64_t sample) {
  return tensor.bytes() / static_cast<std::size_t>(tensor.shape()[0]) *
         static_cast<std::size_t>(sample);
}
const std::byte* at_sample(const Tensor& tensor, std::int64_t sample) {
  return static_cast<const std::byte*>(tensor.raw()) + sample_offset(tensor, sample);
}
std::byte* at_sample(Tensor& tensor, std::int64_t sample) {
  return static_cast<std::byte*>(tensor.raw()) + sample_offset(tensor, sample);
}

class Convolution final : public LayerKernel {
 public:
  explicit Convolution(const ConvolutionOptions& options)
      : options_(options), weight_shape_(weight_shape(options)) {}

  void use_weights(const Stream&, const Tensor& weight, const Tensor& bias,
                   std::uint64_t version) override {
    check_parameter(weight, shape_like(weight), "the weight");
    if (options_.bias) check_parameter(bias, {options_.out_channels}, "the bias");
    weights_.use(weight.reshape(grouped_shape(options_, options_.out_channels)), bias, version);
  }

  Tensor forward(const Stream& stream, const Tensor& x) override {
    Prepared& prepared = prepared_for(stream, x.shape(), x.layout());
    check(x, prepared.x_shape, "the input");
    Compiled& compiled = direction(prepared, ConvolutionDirection::forward);
    const Tensor input = in_layout(stream, x, compiled.path.x, compiled.path.products);
    Tensor y = Tensor::empty(prepared.y_shape, DType::f32, stream.device, compiled.path.y);
    if (compiled.path.winograd) {
      winograd_forward(stream, options_, compiled.pieces, given_weights(), input, y);
      return y;
    }
    for (Part& part : compiled.parts) {
      const std::int64_t first = part.compiled.piece.first_channel;
      part.compiled.primitive.set(DNNL_ARG_WEIGHTS, weights(stream, part, 0, first));
      if (options_.bias)
        part.compiled.primitive.set(DNNL_ARG_BIAS, weights_.bias().data<float>() + first);
    }
    transform(stream, compiled, {DNNL_ARG_SRC, DNNL_ARG_DST}, input, y);
    return y;
  }

  Tensor input_gradient(const Stream& stream, const Tensor& grad, const Shape& x_shape,
                        Layout x_layout) override {
    Prepared& prepared = prepared_for(stream, x_shape, x_layout);
    check(grad, prepared.y_shape, "the output's gradient");
    Compiled& compiled = direction(prepared, ConvolutionDirection::input_gradient);
    const Tensor y_grad = in_layout(stream, grad, compiled.path.y, compiled.path.products);
    Tensor x_grad = Tensor::empty(x_shape, DType::f32, stream.device, compiled.path.x);
    if (compiled.path.winograd) {
      winograd_input_gradient(stream, options_, compiled.pieces, given_weights(), y_grad, x_grad);
      return in_layout(stream, x_grad, x_layout);
    }
    for (Part& part : compiled.parts)
      part.compiled.primitive.set(DNNL_ARG_WEIGHTS,
                                  weights(stream, part, 1, part.compiled.piece.first_channel));
    transform(stream, compiled, {DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC}, y_grad, x_grad);
    return in_layout(stream, x_grad, x_layout);
  }

  void weight_gradient(const Stream& stream, const Tensor& x, const Tensor& grad,
                       Tensor& weight_grad, Tensor& bias_grad) override {
    Prepared& prepared = prepared_for(stream, x.shape(), x.layout());
    check(x, prepared.x_shape, "the input");
    check(grad, prepared.y_shape, "the output's gradient");
    check_parameter(weight_grad, shape_like(weight_grad), "the weight's gradient");
    if (options_.bias) check_parameter(bias_grad, {options_.out_channels}, "the bias's gradient");
    if (takes_own_weight_gradient(options_))
      return depthwise(stream, x, grad, weight_grad, bias_grad);
    Compiled& compiled = direction(prepared, ConvolutionDirection::weight_gradient);
    const Tensor input = in_layout(stream, x, compiled.path.x, compiled.path.products);
    const Tensor y_grad = in_layout(stream, grad, compiled.path.y, compiled.path.products);
    if (compiled.path.winograd)
      return winograd_weight_gradient(stream, options_, compiled.pieces, input, y_grad, weight_grad,
                                      bias_grad);
    if (compiled.partials == 1)
      return sum_samples(stream, compiled, input, y_grad, weight_grad.data<float>(),
                         options_.bias ? bias_grad.data<float>() : nullptr, 0);
    const std::int64_t count = weight_grad.element_count();
    const std::int64_t stride = count + (options_.bias ? options_.out_channels : 0);
    Tensor partials = Tensor::empty({compiled.partials, stride}, DType::f32, stream.device);
    auto* const sums = partials.data<float>();
    sum_samples(stream, compiled, input, y_grad, sums, options_.bias ? sums + count : nullptr,
                stride);
    add_up(stream, {sums, stride, compiled.partials}, count, weight_grad.data<float>());
    if (options_.bias)
      add_up(stream, {sums + count, stride, compiled.partials}, options_.out_channels,
             bias_grad.data<float>());
  }

 private:
  void depthwise(const Stream& stream, const Tensor& x, const Tensor& grad, Tensor& weight_grad,
                 Tensor& bias_grad) const {
    const auto paths = convolution_paths(options_, x.shape(), ConvolutionDirection::forward);
    const Layout layout = stays_nhwc(options_, x.layout()) ? Layout::nhwc : paths.front().y;
    depthwise_weight_gradient(stream, options_, in_layout(stream, x, layout),
                              in_layout(stream, grad, layout), weight_grad, bias_grad);
  }

  /// Forward and the gradient of the input: from the samples of one tensor to those of another.
  void transform(const Stream& stream, Compiled& compiled, std::pair<int, int> arguments,
                 const Tensor& from, Tensor& to) const {
    const int source = arguments.first, result = arguments.second;  // clang 14 captures no bindings
    run_pieces(stream, compiled.parts.size(), compiled.bytes,
               [&](std::size_t i, std::byte* memory) {
                 auto& [piece, order, primitive] = compiled.parts[i].compiled;
                 std::byte* const samples = at_sample(to, piece.first_sample);
                 std::byte* const channels = memory + compiled.parts[i].channels_at;
                 const bool all = piece.channels == to.shape()[1];
                 primitive.set(source, at_sample(from, piece.first_sample));
                 primitive.set(result, all ? samples : channels);
                 primitive.execute_here(memory);
                 if (!all) PieceChannels(to.shape(), piece, to.dtype()).scatter(channels, samples);
               });
  }

  /// The gradients of weight and bias. Each further partial sum lies `stride` elements behind.
  void sum_samples(const Stream& stream, Compiled& compiled, const Tensor& x, const Tensor& grad,
                   float* weight_sums, float* bias_sums, std::int64_t stride) const {
    const std::int64_t row = weight_shape_.element_count() / options_.out_channels;
    const std::int64_t samples = compiled.parts.front().compiled.piece.samples;
    run_pieces(stream, compiled.parts.size(), compiled.bytes,
               [&](std::size_t i, std::byte* memory) {
                 Part& part = compiled.parts[i];
                 auto& [piece, order, primitive] = part.compiled;
                 const std::int64_t partial = piece.first_sample / samples * stride;
                 float* const sums = weight_sums + partial + piece.first_channel * row;
                 const std::byte* gradient = at_sample(grad, piece.first_sample);
                 if (piece.channels != options_.out_channels) {
                   std::byte* const channels = memory + part.channels_at;
                   PieceChannels(grad.shape(), piece, grad.dtype()).gather(gradient, channels);
                   gradient = channels;
                 }
                 primitive.set(DNNL_ARG_SRC, at_sample(x, piece.first_sample));
                 primitive.set(DNNL_ARG_DIFF_DST, gradient);
                 if (bias_sums)
                   primitive.set(DNNL_ARG_DIFF_BIAS, bias_sums + partial + piece.first_channel);
                 void* const ordered =
                     part.export_gradient ? static_cast<void*>(memory + part.ordered_at) : sums;
                 primitive.set(DNNL_ARG_DIFF_WEIGHTS, ordered);
                 primitive.execute_here(memory);
                 if (!part.export_gradient) return;
                 part.export_gradient->set(DNNL_ARG_FROM, ordered);
                 part.export_gradient->set(DNNL_ARG_TO, sums);
                 part.export_gradient->execute_here(memory);
               });
  }

  /// The shape of weights that are given like `tensor`: with kernels of one row, which are those of
  /// sequences, they may lack the axis of rows.
  Shape shape_like(const Tensor& tensor) const {
    if (!tensor.defined() || tensor.rank() != 3 || options_.kernel_h != 1) return weight_shape_;
    return {weight_shape_[0], weight_shape_[1], weight_shape_[3]};
  }
  void check_parameter(const Tensor& tensor, const Shape& shape, std::string_view what) const {
    check(tensor, shape, what);
    if (tensor.layout() != Layout::row_major) refuse(tensor, shape, what);
  }
  void check(const Tensor& tensor, const Shape& shape, std::string_view what) const {
    if (!tensor.defined())
      throw Error(ErrorCode::bad_shape, fmt::format("{}: {} is missing, expected {}",
                                                    describe(options_), what, to_string(shape)));
    if (tensor.shape() != shape || tensor.dtype() != DType::f32) refuse(tensor, shape, what);
  }
  [[noreturn]] void refuse(const Tensor& tensor, const Shape& shape, std::string_view what) const {
    throw Error(
        ErrorCode::bad_shape,
        fmt::format("{}: {} is {} {} ({}), expected f32 {}", describe(options_), what,
                    name_of(tensor.dtype()), to_string(tensor.shape()), name_of(tensor.layout()),
                    to_string(shape)),
        "pass the tensors of the same forward pass; weights are row_major [O, I / groups, KH, "
        "KW]");
  }

  // A batch of another size comes at the end of an epoch and in evaluation; the oldest goes when
  // sizes never stop changing.
  Prepared& prepared_for(const Stream& stream, const Shape& x_shape, Layout x_layout) {
    const bool stays = stays_nhwc(options_, x_layout);
    constexpr std::size_t most = 16;
    for (Prepared& prepared : prepared_)
      if (prepared.x_shape == x_shape && prepared.products == stream.products &&
          prepared.stays_nhwc == stays)
        return prepared;
    if (prepared_.size() == most) prepared_.pop_back();
    return prepared_.emplace_front(
        Prepared{x_shape, stays, convolution_output_shape(options_, x_shape), stream.products, {}});
  }

  Compiled& direction(Prepared& prepared, ConvolutionDirection direction) {
    auto& compiled = prepared.directions[static_cast<std::size_t>(direction)];
    if (compiled) return *compiled;
    auto paths = convolution_paths(options_, prepared.x_shape, direction, prepared.products);
    if (prepared.stays_nhwc)
      std::erase_if(paths, [](const ConvolutionPath& path) { return path.x != Layout::nhwc; });
    for (std::size_t i = 0; i < paths.size() && !compiled; ++i) {
      const bool last_choice = i + 1 == paths.size();
      try {
        compiled = compile(prepared, direction, paths[i], last_choice);
      } catch (const dnnl::error& error) {
        if (last_choice)
          throw Error(ErrorCode::unsupported,
                      fmt::format("{}: oneDNN refuses an input of {}: {}", describe(options_),
                                  to_string(prepared.x_shape), error.what()));
      }
    }
    return *compiled;
  }

  Compiled compile(const Prepared& prepared, ConvolutionDirection direction,
                   const ConvolutionPath& path, bool last_choice) const {
    const bool of_x = direction == ConvolutionDirection::input_gradient;
    const bool of_weights = direction == ConvolutionDirection::weight_gradient;
    const Shape& divided = of_x ? prepared.x_shape : prepared.y_shape;
    const std::size_t copied = size_of(of_weights ? path.products : DType::f32);
    Compiled result{.path = path,
                    .pieces = convolution_pieces(options_, prepared.x_shape, direction, path)};
    if (path.winograd) return result;
    for (const ConvolutionPiece& piece : result.pieces) {
      Part part{compile_piece(options_, prepared.x_shape, direction, path, piece, last_choice)};
      const memory::desc& order = part.compiled.weights;
      const auto plain = onednn_memory(grouped_shape(options_, piece.channels), Layout::row_major);
      if (of_weights && order != plain) part.export_gradient = prepare_copy(order, plain);
      part.channels_at = aligned_bytes(
          std::max(part.compiled.primitive.scratch_bytes(),
                   part.export_gradient ? part.export_gradient->scratch_bytes() : std::size_t{0}));
      part.ordered_at = part.channels_at;
      if (piece.channels != divided[1])
        part.ordered_at += aligned_bytes(
            static_cast<std::size_t>(piece.samples * piece.channels * divided[2] * divided[3]) *
            copied);
      part.bytes = part.ordered_at + (part.export_gradient ? order.get_size() : 0);
      result.bytes = std::max(result.bytes, part.bytes);
      result.parts.push_back(std::move(part));
    }
    const std::int64_t samples = result.pieces.front().samples;
    result.partials = (prepared.x_shape[0] + samples - 1) / samples;
    return result;
  }

  /// Those of a piece, which begins at a channel of this axis of the weights.
  const void* weights(const Stream& stream, const Part& part, std::size_t axis,
                      std::int64_t channel) {
    const memory::desc& order = part.compiled.weights;
    memory::dims begin(order.dims().size(), 0);
    begin[axis] = channel;
    return given_weights().in_order(stream, order, begin);
  }

  PreparedWeights& given_weights() {
    if (!weights_.defined())
      throw Error(ErrorCode::internal, describe(options_) + ": computed before use_weights");
    return weights_;
  }

  ConvolutionOptions options_;
  Shape weight_shape_;
  PreparedWeights weights_;
  std::deque<Prepared> prepared_;
};

}  // namespace

// Algorithm and layouts follow convolution_rule.h; an input in another layout is reordered, not
// refused. Primitives are compiled once for each input shape; the weights are brought into the
// primitives' order once a version. The kernel reads the weights that it was given until it is
// given others.
std::unique_ptr<LayerKernel> convolution(const ConvolutionOptions& options) {
  if (options.in_channels < 1 || options.out_channels < 1 || options.kernel_h < 1 ||
      options.kernel_w < 1 || options.stride_h < 1 || options.stride_w < 1 ||
      options.dilation_h < 1 || options.dilation_w < 1 || options.groups < 1 ||
      options.padding_h < 0 || options.padding_w < 0)
    throw Error(ErrorCode::bad_shape, describe(options) + ": a size is zero or negative",
                "channels, kernel, stride, dilation and groups are at least 1, padding at least 0");
  if (options.in_channels % options.groups != 0 || options.out_channels % options.groups != 0)
    throw Error(ErrorCode::bad_shape, describe(options) + ": the channels cannot be divided",
                "both numbers of channels must be multiples of the number of groups");
  return std::make_unique<Convolution>(options);
}

}  // namespace troupe::cpu
