#include "ops/cpu/winograd_convolution.h"

#include <algorithm>
#include <array>

#include "ops/cpu/pieces.h"
#include "ops/cpu/winograd.h"

namespace troupe::cpu {
namespace {

using Tag = dnnl::memory::format_tag;

const float* samples_from(const Tensor& tensor, std::int64_t sample) {
  return tensor.data<float>() + tensor.element_count() / tensor.dim(0) * sample;
}

std::vector<WinogradPiece> winograd_pieces(const std::vector<ConvolutionPiece>& pieces,
                                           const Tensor& from, const Shape& to,
                                           std::int64_t padding_h, std::int64_t padding_w) {
  std::vector<WinogradPiece> result;
  result.reserve(pieces.size());
  for (const ConvolutionPiece& piece : pieces)
    result.push_back({.samples = piece.samples,
                      .height = from.dim(2),
                      .width = from.dim(3),
                      .channels = from.dim(1),
                      .out_height = to[2],
                      .out_width = to[3],
                      .out_channels = to[1],
                      .padding_h = padding_h,
                      .padding_w = padding_w,
                      .first_channel = piece.first_channel,
                      .piece_channels = piece.channels});
  return result;
}

/// The transformed tiles of pieces that divide the channels, for each part of the samples.
class SharedTiles {
 public:
  SharedTiles(const Stream& stream, const std::vector<ConvolutionPiece>& pieces,
              const std::vector<WinogradPiece>& works, const Tensor& from, bool by_rows)
      : samples_(pieces.front().samples) {
    const WinogradPiece& first = works.front();
    if (first.piece_channels == first.out_channels) return;  // nobody would share them
    count_ = winograd_tile_count(first, by_rows);
    if (count_ == 0) return;
    const std::int64_t parts = pieces.back().first_sample / samples_ + 1;
    const std::size_t channels = works.size() / static_cast<std::size_t>(parts);
    const auto blocks = static_cast<std::size_t>(first.channels / 16);
    tiles_ = Tensor::empty({parts, count_}, DType::f32, stream.device);
    auto* const to = tiles_.data<float>();
    run_pieces(stream, static_cast<std::size_t>(parts) * blocks, 0, [&](std::size_t i, std::byte*) {
      const std::size_t piece = i / blocks * channels;
      winograd_tiles(works[piece], samples_from(from, pieces[piece].first_sample),
                     static_cast<std::int64_t>(i % blocks), by_rows,
                     to + static_cast<std::int64_t>(i / blocks) * count_);
    });
  }

  bool exist() const { return tiles_.defined(); }
  /// Null if they do not exist.
  const float* of(const ConvolutionPiece& piece) const {
    return exist() ? tiles_.data<float>() + piece.first_sample / samples_ * count_ : nullptr;
  }

 private:
  std::int64_t samples_ = 0, count_ = 0;
  Tensor tiles_;
};

/// Forward and the gradient of the input.
void transform(const Stream& stream, const std::vector<WinogradPiece>& works,
               const std::vector<ConvolutionPiece>& pieces, const WinogradWeights& weights,
               const float* bias, const Tensor& from, Tensor& to) {
  const SharedTiles tiles(stream, pieces, works, from, true);
  std::size_t bytes = 0;
  for (const WinogradPiece& work : works)
    bytes = std::max(bytes, winograd_bytes(work, tiles.exist()));
  auto* const results = to.data<float>();
  const std::int64_t of_sample = to.element_count() / to.dim(0);
  run_pieces(stream, works.size(), bytes, [&](std::size_t i, std::byte* memory) {
    const std::int64_t sample = pieces[i].first_sample;
    winograd_piece(works[i], samples_from(from, sample), weights, bias,
                   results + sample * of_sample, tiles.of(pieces[i]), memory);
  });
}

/// The weights in blocks of 16x16 channels, those of the output outermost.
const float* in_blocks(const Stream& stream, const ConvolutionOptions& o, PreparedWeights& weights,
                       Tag order) {
  const Shape shape = weight_shape(o);
  const dnnl::memory::desc blocks({shape[0], shape[1], shape[2], shape[3]},
                                  dnnl::memory::data_type::f32, order);
  return static_cast<const float*>(weights.in_order(stream, blocks, {0, 0, 0, 0}));
}

constexpr std::int64_t block_size = std::int64_t{9} * 16 * 16;

/// The sums over samples and pixels of each channel of nchw16c, by rows, so that the error of f32
/// does not grow with the image.
void sum_channels(const Stream& stream, const Tensor& grad, float* sums) {
  const std::int64_t blocks = grad.dim(1) / 16, rows = grad.dim(2), width = grad.dim(3);
  const std::int64_t of_block = grad.dim(0) * rows * width * 16;
  const std::int64_t grain = std::max<std::int64_t>(1, elements_per_thread / of_block);
  parallel(stream, blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t b = begin; b < end; ++b) {
      std::array<double, 16> total{};
      for (std::int64_t n = 0; n < grad.dim(0); ++n) {
        const float* from = samples_from(grad, n) + b * rows * width * 16;
        for (std::int64_t row = 0; row < rows; ++row) {
          std::array<float, 16> of_row{};
          for (std::int64_t i = 0; i < width; ++i, from += 16)
            for (std::size_t c = 0; c < 16; ++c) of_row[c] += from[c];
          for (std::size_t c = 0; c < 16; ++c) total[c] += of_row[c];
        }
      }
      for (std::size_t c = 0; c < 16; ++c)
        sums[b * 16 + static_cast<std::int64_t>(c)] = static_cast<float>(total[c]);
    }
  });
}

}  // namespace

void winograd_forward(const Stream& stream, const ConvolutionOptions& o,
                      const std::vector<ConvolutionPiece>& pieces, PreparedWeights& weights,
                      const Tensor& x, Tensor& y) {
  const auto works = winograd_pieces(pieces, x, y.shape(), o.padding_h, o.padding_w);
  const WinogradWeights kernels{in_blocks(stream, o, weights, Tag::ABcd16b16a), block_size,
                                o.in_channels / 16 * block_size, false};
  transform(stream, works, pieces, kernels, o.bias ? weights.bias().data<float>() : nullptr, x, y);
}

// It is the convolution of the output's gradient with the flipped kernels.
void winograd_input_gradient(const Stream& stream, const ConvolutionOptions& o,
                             const std::vector<ConvolutionPiece>& pieces, PreparedWeights& weights,
                             const Tensor& y_grad, Tensor& x_grad) {
  const auto works =
      winograd_pieces(pieces, y_grad, x_grad.shape(), 2 - o.padding_h, 2 - o.padding_w);
  const WinogradWeights kernels{in_blocks(stream, o, weights, Tag::ABcd16a16b),
                                o.in_channels / 16 * block_size, block_size, true};
  transform(stream, works, pieces, kernels, nullptr, y_grad, x_grad);
}

void winograd_weight_gradient(const Stream& stream, const ConvolutionOptions& o,
                              const std::vector<ConvolutionPiece>& pieces, const Tensor& x,
                              const Tensor& y_grad, Tensor& weight_grad, Tensor& bias_grad) {
  const auto works = winograd_pieces(pieces, x, y_grad.shape(), o.padding_h, o.padding_w);
  const SharedTiles tiles(stream, pieces, works, x, false);
  std::size_t bytes = 0;
  for (const WinogradPiece& work : works)
    bytes = std::max(bytes, winograd_gradient_bytes(work, tiles.exist()));
  const std::int64_t size = weight_grad.element_count(), samples = pieces.front().samples;
  const std::int64_t partials = pieces.back().first_sample / samples + 1;
  Tensor several;  // partial sums, if the samples are divided
  if (partials > 1) several = Tensor::empty({partials, size}, DType::f32, stream.device);
  float* const sums = partials > 1 ? several.data<float>() : weight_grad.data<float>();
  run_pieces(stream, works.size(), bytes, [&](std::size_t i, std::byte* memory) {
    const std::int64_t sample = pieces[i].first_sample;
    winograd_piece_gradient(works[i], samples_from(x, sample), samples_from(y_grad, sample),
                            sums + sample / samples * size, tiles.of(pieces[i]), memory);
  });
  if (partials > 1) add_up(stream, {sums, size, partials}, size, weight_grad.data<float>());
  if (o.bias) sum_channels(stream, y_grad, bias_grad.data<float>());
}

}  // namespace troupe::cpu
