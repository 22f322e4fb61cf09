#include "ops/cpu/convolution_pieces.h"

#include <algorithm>
#include <string_view>

#include "ops/cpu/pieces.h"

namespace troupe::cpu {
namespace {

using dnnl::memory;

constexpr std::int64_t most_pieces = 16;
constexpr dnnl::algorithm direct = dnnl::algorithm::convolution_direct;

constexpr std::int64_t quotient_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The least number of samples of a piece. Measured on Zen 5 by the processor time of one thread: a
/// primitive is called in microseconds, so that 8 Mflop (0.1 ms) suffice where it is direct.
/// Winograd's algorithm also transforms the weights for each group of up to 144 tiles: smaller
/// pieces than 128 tiles would repeat that (Zen 4). It is slower on less than 25 Mflop, and weight
/// gradients, whose pieces have partial sums as large as the weights, on less than 100 Mflop.
std::int64_t least_samples(const ConvolutionOptions& o, const Shape& y,
                           ConvolutionDirection direction, bool winograd) {
  const std::int64_t pixels = y[2] * y[3];
  const std::int64_t weights = weight_shape(o).element_count();
  const bool sums = direction == ConvolutionDirection::weight_gradient;
  const std::int64_t flop = !winograd ? 8'000'000 : sums ? 100'000'000 : 25'000'000;
  std::int64_t least = quotient_up(flop, 2 * pixels * weights);
  if (winograd)
    least = std::max(least, quotient_up(128, quotient_up(y[2], 4) * quotient_up(y[3], 4)));
  if (sums) least = std::max(least, quotient_up(1024, pixels));
  return least;
}

/// Describes a direction of a convolution to oneDNN along one path: what is multiplied has the
/// path's type, what is summed is f32.
class Describer {
 public:
  Describer(const ConvolutionOptions& options, const Shape& x, const ConvolutionPath& path,
            ConvolutionDirection direction)
      : products_(path.products),
        x_(onednn_memory(x, path.x, type(direction, ConvolutionDirection::input_gradient))),
        weights_(onednn_any_memory(grouped_shape(options, options.out_channels),
                                   type(direction, ConvolutionDirection::weight_gradient))),
        bias_(options.bias ? onednn_memory({options.out_channels}, Layout::row_major)
                           : memory::desc()),
        y_(onednn_memory(convolution_output_shape(options, x), path.y,
                         type(direction, ConvolutionDirection::forward))),
        stride_{options.stride_h, options.stride_w},
        dilation_{options.dilation_h - 1, options.dilation_w - 1},  // oneDNN counts the gaps
        padding_{options.padding_h, options.padding_w},
        padding_end_{end_padding(options, x, 0), end_padding(options, x, 1)} {}

  dnnl::convolution_forward::primitive_desc forward() const {
    return {{dnnl::prop_kind::forward_training, direct, x_, weights_, bias_, y_, stride_, dilation_,
             padding_, padding_end_},
            onednn_attributes(),
            onednn_engine()};
  }

  dnnl::convolution_backward_data::primitive_desc input_gradient() const {
    return {{direct, x_, weights_, y_, stride_, dilation_, padding_, padding_end_},
            onednn_attributes(),
            onednn_engine(),
            hint()};
  }

  dnnl::convolution_backward_weights::primitive_desc weight_gradient() const {
    return {{direct, x_, weights_, bias_, y_, stride_, dilation_, padding_, padding_end_},
            onednn_attributes(),
            onednn_engine(),
            hint()};
  }

  PreparedPrimitive::Arguments arguments(int x, int weights, const memory::desc& order, int bias,
                                         int y) const {
    PreparedPrimitive::Arguments result{{x, x_}, {weights, order}, {y, y_}};
    if (bias != 0 && !bias_.is_zero()) result.emplace_back(bias, bias_);
    return result;
  }

 private:
  /// The type of the tensor that is written in the direction `writes`; all others are multiplied.
  DType type(ConvolutionDirection direction, ConvolutionDirection writes) const {
    return direction == writes ? DType::f32 : products_;
  }

  /// The forward pass whose gradients a primitive computes: its tensors are all of one type.
  dnnl::convolution_forward::primitive_desc hint() const {
    const auto multiplied = [&](memory::desc memory) {
      if (products_ == DType::bf16) memory.data.data_type = dnnl_bf16;
      return memory;
    };
    return {{dnnl::prop_kind::forward_training, direct, multiplied(x_), multiplied(weights_), bias_,
             multiplied(y_), stride_, dilation_, padding_, padding_end_},
            onednn_attributes(),
            onednn_engine()};
  }

  /// What is left over at the bottom or right: less than the padding where a stride does not fit,
  /// even negative.
  static std::int64_t end_padding(const ConvolutionOptions& o, const Shape& x, int axis) {
    const std::int64_t kernel = axis == 0 ? reach_h(o) : reach_w(o);
    const std::int64_t stride = axis == 0 ? o.stride_h : o.stride_w;
    const std::int64_t padding = axis == 0 ? o.padding_h : o.padding_w;
    return (convolution_output_shape(o, x)[2 + axis] - 1) * stride + kernel - x[2 + axis] - padding;
  }

  DType products_;
  memory::desc x_, weights_, bias_, y_;
  memory::dims stride_, dilation_, padding_, padding_end_;
};

// oneDNN always has a plain loop to fall back to, hundreds of times slower than any other choice.
template <class Description>
void refuse_plain_loops(const Description& description, bool last_choice) {
  if (!last_choice && std::string_view(description.impl_info_str()).starts_with("ref"))
    throw dnnl::error(dnnl_unimplemented, "only a plain loop");
}

/// Whether the weights exceed a core's cache (1 MiB of bf16): each sample would read them again.
bool has_large_weights(const ConvolutionOptions& o) {
  return weight_shape(o).element_count() > 512L * 1024;
}

}  // namespace

Shape grouped_shape(const ConvolutionOptions& o, std::int64_t out_channels) {
  if (o.groups == 1) return {out_channels, o.in_channels, o.kernel_h, o.kernel_w};
  return {o.groups, out_channels / o.groups, o.in_channels / o.groups, o.kernel_h, o.kernel_w};
}

// Samples are divided first. Where there are few for large weights (8x8 pixels, 640 channels),
// channels are: each piece then reads all of its samples, but has its own share of the weights, and
// no sum is divided. Winograd's algorithm transforms the samples once for all of these (as long as
// they are few). Where neither division is possible, halves are made of fewer samples: this costs
// up to 8 % (15 % with 160 channels), and a second thread takes 40 % off. In bf16, which halves the
// time of the multiplications but not that of reading, large weights are divided by channels first:
// 5 % of a step of the wide ResNet of widths 160, 320 and 640.
std::vector<ConvolutionPiece> convolution_pieces(const ConvolutionOptions& o, const Shape& x,
                                                 ConvolutionDirection direction,
                                                 const ConvolutionPath& path) {
  const Shape y = convolution_output_shape(o, x);
  const bool of_x = direction == ConvolutionDirection::input_gradient;
  const std::int64_t channels = of_x ? o.in_channels : o.out_channels;
  const std::int64_t least = least_samples(o, y, direction, path.winograd);
  const bool large = path.products == DType::bf16 && has_large_weights(o);
  std::int64_t divisions = std::clamp<std::int64_t>(x[0] / least, 1, large ? 2 : most_pieces);
  std::int64_t groups = 1;
  const std::int64_t least_channels = large ? 160 : 64;
  if (divisions < 4 && o.groups == 1 && path.x == Layout::nchw16c && path.y == Layout::nchw16c)
    groups = equal_groups(channels, 16, least_channels, most_pieces / divisions);
  if (divisions == 1 && groups == 1 && x[0] / 2 >= quotient_up(least, 2)) divisions = 2;
  const std::int64_t samples = quotient_up(x[0], divisions);
  std::vector<ConvolutionPiece> pieces;
  for (std::int64_t first = 0; first < x[0]; first += samples)
    for (std::int64_t group = 0; group < groups; ++group)
      pieces.push_back(
          {first, std::min(samples, x[0] - first), group * channels / groups, channels / groups});
  return pieces;
}

CompiledPiece compile_piece(const ConvolutionOptions& options, const Shape& x,
                            ConvolutionDirection direction, const ConvolutionPath& path,
                            const ConvolutionPiece& piece, bool last_choice) {
  use_one_thread();
  ConvolutionOptions part = options;
  (direction == ConvolutionDirection::input_gradient ? part.in_channels : part.out_channels) =
      piece.channels;
  const Describer describer(part, {piece.samples, part.in_channels, x[2], x[3]}, path, direction);
  if (direction == ConvolutionDirection::forward) {
    const auto description = describer.forward();
    refuse_plain_loops(description, last_choice);
    const memory::desc order = description.weights_desc();
    return {piece, order,
            PreparedPrimitive(dnnl::convolution_forward(description),
                              describer.arguments(DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, order,
                                                  DNNL_ARG_BIAS, DNNL_ARG_DST),
                              description.scratchpad_desc())};
  }
  if (direction == ConvolutionDirection::input_gradient) {
    const auto description = describer.input_gradient();
    refuse_plain_loops(description, last_choice);
    const memory::desc order = description.weights_desc();
    return {piece, order,
            PreparedPrimitive(dnnl::convolution_backward_data(description),
                              describer.arguments(DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, order, 0,
                                                  DNNL_ARG_DIFF_DST),
                              description.scratchpad_desc())};
  }
  const auto description = describer.weight_gradient();
  refuse_plain_loops(description, last_choice);
  const memory::desc order = description.diff_weights_desc();
  return {piece, order,
          PreparedPrimitive(dnnl::convolution_backward_weights(description),
                            describer.arguments(DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, order,
                                                DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST),
                            description.scratchpad_desc())};
}

}  // namespace troupe::cpu
